"""Read a bounce mailbox from a maildir. Processed emails move from `new` to `cur`; after a crash, the rest is read."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

from mailwright.events.bounces.mailbox import MAX_READ_BYTES, MailboxEmail, MailboxUnavailable
from mailwright.ops.logs import logger

log = logger(__name__)

SEEN = ":2,S"
FLAGGED = ":2,F"


class MaildirMailbox:
    def __init__(self, folder: Path) -> None:
        self._new = folder / "new"
        self._cur = folder / "cur"

    async def unread_emails(self) -> AsyncGenerator[MailboxEmail, None]:
        for name in await asyncio.to_thread(self._names):
            content = await asyncio.to_thread(self._read, name)
            if content is not None:
                mark_done, flag = (partial(asyncio.to_thread, self._move, name, suffix) for suffix in (SEEN, FLAGGED))
                yield MailboxEmail(name, content, mark_done, flag)

    def _names(self) -> list[str]:
        """Return the file names, oldest first. Their names begin with the time of delivery."""
        try:
            return sorted(file.name for file in self._new.iterdir() if not file.name.startswith(".") and file.is_file())
        except OSError as error:
            raise MailboxUnavailable(f"{self._new} cannot be read: {error.strerror}") from error

    def _read(self, name: str) -> bytes | None:
        try:
            with (self._new / name).open("rb") as file:
                return file.read(MAX_READ_BYTES)
        except FileNotFoundError:  # another process has moved it
            return None
        except OSError as error:  # one unreadable file must not block the others
            log.warning("bounce_mail_unreadable", file=name, reason=error.strerror)
            return None

    def _move(self, name: str, suffix: str) -> None:
        try:
            self._cur.mkdir(exist_ok=True)
            (self._new / name).rename(self._cur / f"{name.partition(':')[0]}{suffix}")
        except FileNotFoundError:
            return  # another process has moved it
        except OSError as error:
            raise MailboxUnavailable(f"{self._cur} cannot be written: {error.strerror}") from error
