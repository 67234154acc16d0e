"""The mailbox provider: a check looks and changes nothing."""

from pathlib import Path

from mailwright.domain.clock import SystemClock
from mailwright.providers.mailbox.provider import MailboxProvider


async def test_check_creates_no_folders(tmp_path: Path) -> None:
    provider = MailboxProvider(tmp_path / "var" / "mailbox", SystemClock())
    assert (await provider.check()).is_ok
    assert list(tmp_path.iterdir()) == []


async def test_check_names_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("")
    found = await MailboxProvider(tmp_path / "var" / "mailbox", SystemClock()).check()
    assert (found.is_ok, found.code) == (False, "MAILBOX_NOT_WRITABLE")
    assert f"{tmp_path / 'var'} is not a folder" in found.summary
