"""Read a bounce mailbox over IMAP. Emails are fetched with PEEK and marked as seen only after they are processed."""

import asyncio
import contextlib
import imaplib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.bounces.mailbox import MAX_READ_BYTES, MailboxEmail, MailboxUnavailable
from mailwright.providers.tokens import TokenSource, TokenUnavailable, oauthbearer, xoauth2

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TIMEOUT_SECONDS = 30.0
# Maximum number of emails per pass, to limit the length of the session and of the UID list. The next pass continues.
MAX_EMAILS = 1_000
# The longest response to a command: an email, and the lines around it.
MAX_RESPONSE_BYTES = MAX_READ_BYTES + 2 * 1024 * 1024
_TOO_LONG = "the server's response is too long"


@dataclass(frozen=True, slots=True)
class ImapSettings:
    host: str
    port: int
    user: str
    password: str | None = field(default=None, repr=False)  # None: an access token of `tokens` is used.
    folder: str = "INBOX"
    move_to: str | None = None  # the folder for processed emails; None keeps them in place
    ca: Path | None = None
    is_encrypted: bool = True
    timeout_seconds: float = TIMEOUT_SECONDS
    tokens: TokenSource | None = field(default=None, repr=False)


class _TokenRejected(Exception):
    """The server does not accept the access token."""


class _LimitedImap(imaplib.IMAP4):
    """A connection that ends if a response is too long, because `imaplib` allocates any announced length at once."""

    _bytes_left = MAX_RESPONSE_BYTES

    def send(self, data: "ReadableBuffer") -> None:
        self._bytes_left = MAX_RESPONSE_BYTES
        super().send(data)

    def read(self, size: int) -> bytes:
        self._count(size)
        return super().read(size)

    def readline(self) -> bytes:
        line = super().readline()
        self._count(len(line))
        return line

    def _count(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            raise self.abort(_TOO_LONG)


class _LimitedEncryptedImap(_LimitedImap, imaplib.IMAP4_SSL):
    """The same with TLS."""


class ImapMailbox:
    def __init__(self, settings: ImapSettings) -> None:
        self._settings = settings

    @property
    def needs_token(self) -> bool:
        return self._settings.password is None

    @property
    def user(self) -> str:
        return self._settings.user

    async def check(self) -> str:
        """Connect, sign in and open the folder without reading anything. Raise `MailboxUnavailable` if that fails."""
        session = _ImapSession(self._settings)
        try:
            session = await self._opened(session)
        finally:
            await asyncio.to_thread(session.close)
        how = "an access token" if self.needs_token else "a password"
        return f"{self._settings.host} accepts {how} of this user, and {self._settings.folder} can be opened"

    async def unread_emails(self) -> AsyncGenerator[MailboxEmail, None]:
        session = _ImapSession(self._settings)
        command_lock = asyncio.Lock()  # Allows one command at a time, because `mark_done` may be called concurrently.
        try:
            session = await self._opened(session)
            for uid in await asyncio.to_thread(session.unseen):
                async with command_lock:
                    content = await asyncio.to_thread(session.fetch, uid)
                if content is not None:
                    identity = f"{self._settings.folder}/{session.uid_validity}/{uid}"
                    mark_done, flag = (
                        partial(_run_locked, command_lock, command, uid)
                        for command in (session.mark_done, session.flag)
                    )
                    yield MailboxEmail(identity, content, mark_done, flag)
        finally:
            await asyncio.to_thread(session.close)

    async def _opened(self, session: "_ImapSession") -> "_ImapSession":
        if self.needs_token:
            return await self._open_with_token(session)
        await asyncio.to_thread(session.open)
        return session

    async def _open_with_token(self, session: "_ImapSession") -> "_ImapSession":
        """Open a session with an access token. A rejected token is replaced once, for a second session."""
        tokens = self._settings.tokens
        if tokens is None:
            raise MailboxUnavailable("auth=xoauth2 needs the OAuth settings, MAILWRIGHT_OAUTH_TOKEN_URL and so on")
        for is_last in (False, True):
            try:
                token = await tokens.token()
                await asyncio.to_thread(session.open, token)
            except TokenUnavailable as error:
                raise MailboxUnavailable(str(error)) from None
            except _TokenRejected as error:
                await asyncio.to_thread(session.close)
                tokens.forget(token)
                if is_last:
                    raise MailboxUnavailable(f"could not log in at {self._settings.host}: {error}") from None
                session = _ImapSession(self._settings)
            else:
                break
        return session


async def _run_locked(command_lock: asyncio.Lock, command: Callable[[str], None], uid: str) -> None:
    async with command_lock:
        await asyncio.to_thread(command, uid)


class _ImapSession:
    """One connection. Its methods block, so call each of them in a thread."""

    def __init__(self, settings: ImapSettings) -> None:
        self._settings = settings
        self._imap: imaplib.IMAP4 | None = None
        self._is_closed = False
        self.uid_validity = "0"

    def open(self, token: str | None = None) -> None:
        settings = self._settings
        with self._translate_errors("connect"):
            self._imap = imap = self._connect()
        if self._is_closed:  # the caller was cancelled meanwhile
            self.close()
            raise MailboxUnavailable("the connection was closed while it was being opened")
        with self._translate_errors("log in"):
            if settings.password is None:
                self._authenticate(imap, token or "")
            elif "AUTH=PLAIN" in imap.capabilities:  # Unlike LOGIN, AUTHENTICATE PLAIN supports every character.
                credentials = f"\0{settings.user}\0{settings.password}".encode()
                imap.authenticate("PLAIN", lambda _challenge: credentials)
            else:
                imap.login(_quoted(settings.user), settings.password)
        with self._translate_errors("open the folder"):
            _expect_ok(imap.select(_quoted(settings.folder)))
            self.uid_validity = _text(imap.response("UIDVALIDITY")[1]) or "0"
            if settings.move_to is not None and "MOVE" not in _text(imap.capability()[1]).upper().split():
                raise MailboxUnavailable("the IMAP server cannot move emails; remove `move` from the mailbox URL")

    def _authenticate(self, imap: imaplib.IMAP4, token: str) -> None:
        settings = self._settings
        if "AUTH=XOAUTH2" in imap.capabilities or "AUTH=OAUTHBEARER" not in imap.capabilities:
            name, response, rejection = "XOAUTH2", xoauth2(settings.user, token), b""
        else:
            response = oauthbearer(settings.user, token, settings.host, settings.port)
            name, rejection = "OAUTHBEARER", b"\x01"
        # After a rejection the server sends its reason and waits for another response.
        responses = iter((response,))
        try:
            imap.authenticate(name, lambda _challenge: next(responses, rejection))
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error:
            raise _TokenRejected("the server does not accept the access token of this user") from None

    def unseen(self) -> list[str]:
        with self._translate_errors("search"):
            return _text(_expect_ok(self._open.uid("SEARCH", "UNSEEN", "UNFLAGGED", "UNDELETED"))).split()[:MAX_EMAILS]

    def fetch(self, uid: str) -> bytes | None:
        """Return the email, or None if it no longer exists."""
        with self._translate_errors("fetch an email"):
            response = _expect_ok(self._open.uid("FETCH", uid, f"(BODY.PEEK[]<0.{MAX_READ_BYTES}>)"))
        return next((each[1] for each in response if isinstance(each, tuple) and b"BODY[" in each[0].upper()), None)

    def mark_done(self, uid: str) -> None:
        with self._translate_errors("mark an email as seen"):
            _expect_ok(self._open.uid("STORE", uid, "+FLAGS.SILENT", r"(\Seen)"))
            if self._settings.move_to is not None:
                _expect_ok(self._open.uid("MOVE", uid, _quoted(self._settings.move_to)))

    def flag(self, uid: str) -> None:
        with self._translate_errors("flag an email"):
            _expect_ok(self._open.uid("STORE", uid, "+FLAGS.SILENT", r"(\Flagged)"))

    def close(self) -> None:
        """Close the socket without LOGOUT, which wakes a thread that may still be waiting for a response."""
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
            return _LimitedImap(settings.host, settings.port, timeout=settings.timeout_seconds)
        context = ssl.create_default_context(cafile=settings.ca)
        return _LimitedEncryptedImap(
            settings.host, settings.port, ssl_context=context, timeout=settings.timeout_seconds
        )

    @property
    def _open(self) -> imaplib.IMAP4:
        if self._imap is None:
            raise MailboxUnavailable("the connection is already closed")
        return self._imap

    @contextlib.contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Translate errors of `imaplib`. The server's text is omitted, because some servers repeat the password."""
        where = f"{self._settings.host}:{self._settings.port}"
        try:
            yield
        except (imaplib.IMAP4.error, OSError, ValueError) as error:
            if isinstance(error, OSError):
                reason = error.strerror
            elif _TOO_LONG in str(error):  # `imaplib` raises it again, with the name of the command.
                reason = _TOO_LONG
            else:
                reason = "the server rejected the command or closed the connection"
            raise MailboxUnavailable(f"could not {what} at {where}: {reason or type(error).__name__}") from None


def _expect_ok(response: tuple[str, Sequence[object]]) -> Sequence[object]:
    status, data = response
    if status != "OK":
        raise imaplib.IMAP4.error(status)
    return data


def _text(data: object) -> str:
    first = data[0] if isinstance(data, list) and data else None
    return first.decode("ascii", "replace") if isinstance(first, bytes) else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
