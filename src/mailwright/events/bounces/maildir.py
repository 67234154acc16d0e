"""A maildir as a box: mails wait in `new`, and are moved to `cur` as seen. A crash in between hands them over again."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

from mailwright.events.bounces.email_parts import MAX_BYTES
from mailwright.events.bounces.mailbox import MailboxEmail, MailboxUnavailable
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
            mail = await asyncio.to_thread(self._read, name)
            if mail is not None:
                done, lay_aside = (partial(asyncio.to_thread, self._move, name, mark) for mark in (SEEN, FLAGGED))
                yield MailboxEmail(name, mail, done, lay_aside)

    def _names(self) -> list[str]:
        """The oldest first, as delivery programs name them."""
        try:
            return sorted(file.name for file in self._new.iterdir() if not file.name.startswith(".") and file.is_file())
        except OSError as error:
            raise MailboxUnavailable(f"{self._new} cannot be read: {error.strerror}") from error

    def _read(self, name: str) -> bytes | None:
        try:
            with (self._new / name).open("rb") as file:
                return file.read(MAX_BYTES)
        except FileNotFoundError:  # somebody else has taken it
            return None
        except OSError as error:  # one bad file must not stop the others
            log.warning("bounce_mail_not_readable", file=name, reason=error.strerror)
            return None

    def _move(self, name: str, mark: str) -> None:
        try:
            self._cur.mkdir(exist_ok=True)
            (self._new / name).rename(self._cur / f"{name.partition(':')[0]}{mark}")
        except FileNotFoundError:
            return  # somebody else has, in the meantime
        except OSError as error:
            raise MailboxUnavailable(f"{self._cur} cannot be written: {error.strerror}") from error
