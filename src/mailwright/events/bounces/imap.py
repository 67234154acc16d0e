"""A mailbox behind IMAP as a box: unseen mails are read without a trace, and marked as seen only when they are done."""

import asyncio
import contextlib
import imaplib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mailwright.events.bounces.email_parts import MAX_BYTES
from mailwright.events.bounces.mailbox import MailboxEmail, MailboxUnavailable

TIMEOUT_SECONDS = 30.0
# A pass ends after so many; the next one goes on. Others may want the connection, and a list has a longest line.
MAX_EMAILS = 1_000


@dataclass(frozen=True, slots=True)
class ImapSettings:
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    folder: str = "INBOX"
    move_to: str | None = None  # where mails go that are done; they stay where they are if this is not set
    ca: Path | None = None
    is_encrypted: bool = True
    timeout_seconds: float = TIMEOUT_SECONDS


class ImapMailbox:
    def __init__(self, settings: ImapSettings) -> None:
        self._settings = settings

    async def unread_emails(self) -> AsyncGenerator[MailboxEmail, None]:
        session = _Session(self._settings)
        turn = asyncio.Lock()  # the session speaks with one voice, and `done` may be called at any time
        try:
            await asyncio.to_thread(session.open)
            for uid in await asyncio.to_thread(session.unseen):
                async with turn:
                    mail = await asyncio.to_thread(session.fetch, uid)
                if mail is not None:
                    identity = f"{self._settings.folder}/{session.uid_validity}/{uid}"
                    done, lay_aside = (partial(_in_turn, turn, mark, uid) for mark in (session.mark_done, session.flag))
                    yield MailboxEmail(identity, mail, done, lay_aside)
        finally:
            await asyncio.to_thread(session.close)


async def _in_turn(turn: asyncio.Lock, mark: Callable[[str], None], uid: str) -> None:
    async with turn:
        await asyncio.to_thread(mark, uid)


class _Session:
    """One connection. Every method waits for the server, so each is called in a thread."""

    def __init__(self, settings: ImapSettings) -> None:
        self._settings = settings
        self._imap: imaplib.IMAP4 | None = None
        self._is_closed = False
        self.uid_validity = "0"

    def open(self) -> None:
        settings = self._settings
        with self._translated("connect"):
            self._imap = imap = self._connect()
        if self._is_closed:  # nobody waited for it
            self.close()
            raise MailboxUnavailable("the connection was closed while it was opened")
        with self._translated("log in"):
            if "AUTH=PLAIN" in imap.capabilities:  # unlike LOGIN, it takes every character
                credentials = f"\0{settings.user}\0{settings.password}".encode()
                imap.authenticate("PLAIN", lambda _challenge: credentials)
            else:
                imap.login(_quoted(settings.user), settings.password)
        with self._translated("open the folder"):
            _expect_ok(imap.select(_quoted(settings.folder)))
            self.uid_validity = _text(imap.response("UIDVALIDITY")[1]) or "0"
            if settings.move_to is not None and "MOVE" not in _text(imap.capability()[1]).upper().split():
                raise MailboxUnavailable("the IMAP server cannot move mails: take `move` out of the address")

    def unseen(self) -> list[str]:
        with self._translated("search"):
            return _text(_expect_ok(self._open.uid("SEARCH", "UNSEEN", "UNFLAGGED", "UNDELETED"))).split()[:MAX_EMAILS]

    def fetch(self, uid: str) -> bytes | None:
        """None where the mail is gone by now."""
        with self._translated("fetch a mail"):
            answer = _expect_ok(self._open.uid("FETCH", uid, f"(BODY.PEEK[]<0.{MAX_BYTES}>)"))
        return next((each[1] for each in answer if isinstance(each, tuple) and b"BODY[" in each[0].upper()), None)

    def mark_done(self, uid: str) -> None:
        with self._translated("mark a mail as seen"):
            _expect_ok(self._open.uid("STORE", uid, "+FLAGS.SILENT", r"(\Seen)"))
            if self._settings.move_to is not None:
                _expect_ok(self._open.uid("MOVE", uid, _quoted(self._settings.move_to)))

    def flag(self, uid: str) -> None:
        with self._translated("mark a mail as flagged"):
            _expect_ok(self._open.uid("STORE", uid, "+FLAGS.SILENT", r"(\Flagged)"))

    def close(self) -> None:
        """Without a word: it may be that another thread is still waiting for an answer, and this wakes it."""
        self._is_closed = True
        imap, self._imap = self._imap, None
        if imap is not None:
            with contextlib.suppress(OSError):
                imap.socket().shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError):
                imap.shutdown()

    def _connect(self) -> imaplib.IMAP4:
        settings = self._settings
        if not settings.is_encrypted:
            return imaplib.IMAP4(settings.host, settings.port, timeout=settings.timeout_seconds)
        context = ssl.create_default_context(cafile=settings.ca)
        return imaplib.IMAP4_SSL(settings.host, settings.port, ssl_context=context, timeout=settings.timeout_seconds)

    @property
    def _open(self) -> imaplib.IMAP4:
        if self._imap is None:
            raise MailboxUnavailable("the connection is closed already")
        return self._imap

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        """The library's errors in our words. What the server says is left out: some repeat the password."""
        where = f"{self._settings.host}:{self._settings.port}"
        try:
            yield
        except (imaplib.IMAP4.error, OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "the server refused or ended it"
            raise MailboxUnavailable(f"could not {what} at {where}: {reason or type(error).__name__}") from None


def _expect_ok(answer: tuple[str, Sequence[object]]) -> Sequence[object]:
    status, data = answer
    if status != "OK":
        raise imaplib.IMAP4.error(status)
    return data


def _text(data: object) -> str:
    first = data[0] if isinstance(data, list) and data else None
    return first.decode("ascii", "replace") if isinstance(first, bytes) else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
