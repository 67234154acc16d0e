"""Folders of metrics are deleted when no process uses them any longer."""

import tempfile
from pathlib import Path

import pytest

from mailwright.ops.metrics_folder import PREFIX, open_metrics_folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_folder_is_deleted_at_the_end(folder: Path) -> None:
    with open_metrics_folder() as metrics:
        (metrics.path / "counter_1.db").touch()
        assert list(folder.iterdir()) == [metrics.path]
    assert not list(folder.iterdir())


def test_folder_without_a_process_is_deleted(folder: Path) -> None:
    unused = folder / f"{PREFIX}unused"
    unused.mkdir()
    (unused / "counter_1.db").touch()
    with open_metrics_folder():
        assert not unused.exists()


def test_folder_stays_while_any_process_has_its_lock() -> None:
    with open_metrics_folder() as first, open_metrics_folder() as second:
        assert first.path.exists()
        assert second.path.exists()


def test_other_folders_and_links_stay(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    link = folder / f"{PREFIX}link"
    link.symlink_to(other)
    with open_metrics_folder():
        assert other.exists()
        assert link.is_symlink()
