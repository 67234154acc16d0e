"""Temporary folders are deleted when no process uses them any longer."""

import tempfile
from pathlib import Path

import pytest

from mailwright.ops.temporary_folder import open_temporary_folder

PREFIX = "mailwright-metrics-"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_folder_is_deleted_at_the_end(folder: Path) -> None:
    with open_temporary_folder(PREFIX) as opened:
        (opened.path / "counter_1.db").touch()
        assert list(folder.iterdir()) == [opened.path]
    assert not list(folder.iterdir())


def test_folder_without_a_process_is_deleted(folder: Path) -> None:
    unused = folder / f"{PREFIX}unused"
    unused.mkdir()
    (unused / "counter_1.db").touch()
    with open_temporary_folder(PREFIX):
        assert not unused.exists()


def test_folder_stays_while_any_process_has_its_lock() -> None:
    with open_temporary_folder(PREFIX) as first, open_temporary_folder(PREFIX) as second:
        assert first.path.exists()
        assert second.path.exists()


def test_other_folders_and_links_stay(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    link = folder / f"{PREFIX}link"
    link.symlink_to(other)
    with open_temporary_folder(PREFIX):
        assert other.exists()
        assert link.is_symlink()
