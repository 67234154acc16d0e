"""Open a session: connect, greeting, EHLO, STARTTLS, AUTH. A failure here affects every message."""

import asyncio
import ssl
from base64 import b64encode
from collections import deque

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.results import SendResult
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import (
    AUTH_UNSUPPORTED,
    ENDED_BEFORE,
    NOT_CONNECTED,
    TLS_FAILED,
    TOKEN_REFUSED,
    TOKEN_UNAVAILABLE,
    UNKNOWN,
    SessionEnd,
    interpret_rejection,
)
from mailwright.providers.smtp.settings import SmtpAuth, SmtpSettings, Timeouts, Tls
from mailwright.providers.smtp.transport import SmtpTransport
from mailwright.providers.tokens import TokenUnavailable, oauthbearer, xoauth2


class LoginFailed(Exception):
    """The session could not be opened."""

    def __init__(self, result: SendResult) -> None:
        super().__init__(result.message)
        self.result = result


@dataclass(frozen=True, slots=True)
class ServerFeatures:
    """The server's extensions by EHLO keyword; empty after a HELO."""

    offered: dict[str, str]
    pipelining: bool
    max_size_bytes: int | None
    supports_size: bool

    @classmethod
    def of(cls, reply: SmtpReply | None) -> "ServerFeatures":
        offered: dict[str, str] = {}
        for line in reply.lines[1:] if reply else ():
            # Some old servers write AUTH=PLAIN.
            keyword, _, parameters = line.decode("latin-1").replace("=", " ").strip().partition(" ")
            offered[keyword.upper()] = f"{offered.get(keyword.upper(), '')} {parameters}".strip().upper()
        size = offered.get("SIZE", "")
        # SIZE 0 means that the server has no fixed limit.
        limit = int(size) if size.isascii() and size.isdigit() and len(size) <= 20 else 0
        return cls(offered, "PIPELINING" in offered, limit or None, "SIZE" in offered)


class LoginConversation:
    """A dialogue with one command and one reply at a time. Used before any message is sent, and by shadow mode."""

    def __init__(self, timeouts: Timeouts) -> None:
        self.transport = SmtpTransport(self)
        self._timeouts = {
            SmtpPhase.GREETING: timeouts.greeting,
            SmtpPhase.HELLO: timeouts.hello,
            SmtpPhase.STARTTLS: timeouts.starttls,
            SmtpPhase.AUTH: timeouts.auth,
            SmtpPhase.MAIL: timeouts.mail,
            SmtpPhase.RCPT: timeouts.rcpt,
            SmtpPhase.DATA: timeouts.data,
            SmtpPhase.DOT: timeouts.dot,
            SmtpPhase.RESET: timeouts.reset,
            SmtpPhase.QUIT: timeouts.quit,
        }
        self._phase = SmtpPhase.GREETING
        self._heard: deque[SmtpReply] = deque()
        self._failure: SendResult | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def ask(self, phase: SmtpPhase, command: bytes, end: bytes = b"\r\n") -> SmtpReply:
        if self._heard:
            raise LoginFailed(UNKNOWN.result("the server sent an unexpected reply"))
        if self._failure is None:
            self.transport.write(command + end)
        return await self.hear(phase)

    async def hear(self, phase: SmtpPhase) -> SmtpReply:
        self._phase = phase
        if not self._heard and self._failure is None:
            self.transport.allow(self.patience())
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._heard:
            return self._heard.popleft()
        assert self._failure is not None
        raise LoginFailed(self._failure)

    @property
    def has_more(self) -> bool:
        return bool(self._heard) or not self.transport.is_silent

    def finish(self) -> None:
        """End the login. Raise if it failed or if unread bytes are left."""
        if self.has_more:
            raise LoginFailed(UNKNOWN.result("the server sent an unexpected reply"))
        if self._failure is not None:
            raise LoginFailed(self._failure)

    def good_replies_received(self, data: bytes) -> bool:
        return False  # During login every reply is checked individually.

    def reply_received(self, reply: SmtpReply, _following: SmtpReply | None = None) -> None:
        self._heard.append(reply)
        if len(self._heard) > 2:
            self.transport.end(SessionEnd.GARBLED, "the server sent an unexpected reply")
        self._wake()

    def patience(self) -> float:
        return self._timeouts[self._phase]

    def timed_out(self) -> None:
        self.transport.end(SessionEnd.TIMED_OUT, f"no reply in phase {self._phase.name} in {self.patience():g} s")

    def writable_again(self) -> None:
        """Do nothing, because login commands are too small to wait for buffer space."""

    def connection_ended(self, ending: SessionEnd, detail: str) -> None:
        self._failure = ENDED_BEFORE[ending].result(f"{self._phase.name}: {detail}")
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def log_in(
    settings: SmtpSettings, context: ssl.SSLContext | None, timeouts: Timeouts, hostname: str | None
) -> tuple[LoginConversation, ServerFeatures]:
    """Open a session that is ready for messages, or raise LoginFailed."""
    conversation = LoginConversation(timeouts)
    await _connect(conversation.transport, settings, context, timeouts)
    try:
        name = (hostname or _address_literal(conversation.transport.local_address)).encode("ascii", "replace")
        _require(await conversation.hear(SmtpPhase.GREETING), SmtpPhase.GREETING, 220)
        features = await _greet(conversation, name)
        if settings.tls is Tls.STARTTLS:
            if "STARTTLS" not in features.offered:
                raise LoginFailed(TLS_FAILED.result(f"{settings.host} does not offer STARTTLS"))
            assert context is not None
            await _encrypt(conversation, settings, context, timeouts)
            features = await _greet(conversation, name)  # Features announced before TLS are not trusted.
        if settings.auth is SmtpAuth.XOAUTH2:
            await _authenticate_with_token(conversation, features, settings)
        elif settings.user is not None and settings.password is not None:
            await _authenticate(conversation, features, settings.user, settings.password)
        conversation.finish()
    except BaseException:
        conversation.transport.end(SessionEnd.LOST, "the session could not be opened")
        await asyncio.wait([conversation.transport.closed], timeout=1.0)
        raise
    return conversation, features


async def _connect(
    transport: SmtpTransport, settings: SmtpSettings, context: ssl.SSLContext | None, timeouts: Timeouts
) -> None:
    is_tls = settings.tls is Tls.TLS
    try:
        async with asyncio.timeout(timeouts.connect):
            await asyncio.get_running_loop().create_connection(
                lambda: transport,
                settings.host,
                settings.port,
                ssl=context if is_tls else None,
                server_hostname=settings.host if is_tls else None,
            )
    except TimeoutError as error:
        detail = f"no connection to {settings.host}:{settings.port} in {timeouts.connect:g} s"
        raise LoginFailed(ENDED_BEFORE[SessionEnd.TIMED_OUT].result(detail)) from error
    except (OSError, UnicodeError) as error:  # UnicodeError: the host name is invalid in DNS.
        raise _unreachable(settings, error) from error


async def _greet(conversation: LoginConversation, name: bytes) -> ServerFeatures:
    reply = await conversation.ask(SmtpPhase.HELLO, b"EHLO " + name)
    if reply.code in (500, 502):
        _require(await conversation.ask(SmtpPhase.HELLO, b"HELO " + name), SmtpPhase.HELLO, 250)
        return ServerFeatures.of(None)
    return ServerFeatures.of(_require(reply, SmtpPhase.HELLO, 250))


async def _encrypt(
    conversation: LoginConversation, settings: SmtpSettings, context: ssl.SSLContext, timeouts: Timeouts
) -> None:
    _require(await conversation.ask(SmtpPhase.STARTTLS, b"STARTTLS"), SmtpPhase.STARTTLS, 220)
    if conversation.has_more:
        # A man in the middle may have injected this plain text.
        raise LoginFailed(TLS_FAILED.result("the server sent data between STARTTLS and the TLS handshake"))
    try:
        async with asyncio.timeout(timeouts.connect):
            await conversation.transport.encrypt(context, settings.host)
    except TimeoutError as error:
        conversation.transport.mark_closed()
        detail = f"no TLS handshake with {settings.host} in {timeouts.connect:g} s"
        raise LoginFailed(ENDED_BEFORE[SessionEnd.TIMED_OUT].result(detail)) from error
    except OSError as error:
        conversation.transport.mark_closed()
        raise _unreachable(settings, error) from error


async def _authenticate(conversation: LoginConversation, features: ServerFeatures, user: str, password: str) -> None:
    offered = features.offered.get("AUTH", "").split()
    if "PLAIN" in offered:
        secret = b64encode(f"\0{user}\0{password}".encode())
        _require(await conversation.ask(SmtpPhase.AUTH, b"AUTH PLAIN " + secret), SmtpPhase.AUTH, 235)
    elif "LOGIN" in offered:
        _require(await conversation.ask(SmtpPhase.AUTH, b"AUTH LOGIN"), SmtpPhase.AUTH, 334)
        _require(await conversation.ask(SmtpPhase.AUTH, b64encode(user.encode())), SmtpPhase.AUTH, 334)
        _require(await conversation.ask(SmtpPhase.AUTH, b64encode(password.encode())), SmtpPhase.AUTH, 235)
    else:
        found = f"it offers {', '.join(offered)}" if offered else "it offers no AUTH"
        raise LoginFailed(AUTH_UNSUPPORTED.result(f"the server supports neither AUTH PLAIN nor LOGIN: {found}"))


async def _authenticate_with_token(
    conversation: LoginConversation, features: ServerFeatures, settings: SmtpSettings
) -> None:
    """Sign in with an access token. A rejected token is replaced once, because it may have been revoked early."""
    offered = features.offered.get("AUTH", "").split()
    name = next((each for each in ("XOAUTH2", "OAUTHBEARER") if each in offered), None)
    if name is None or settings.user is None:
        found = f"it offers {', '.join(offered)}" if offered else "it offers no AUTH"
        raise LoginFailed(AUTH_UNSUPPORTED.result(f"the server supports neither AUTH XOAUTH2 nor OAUTHBEARER: {found}"))
    if settings.tokens is None:
        raise LoginFailed(TOKEN_REFUSED.result("auth=xoauth2 needs MAILWRIGHT_OAUTH_TOKEN_URL"))
    for is_last in (False, True):
        try:
            token = await settings.tokens.token()
        except TokenUnavailable as error:
            template = TOKEN_REFUSED if error.is_configuration else TOKEN_UNAVAILABLE
            raise LoginFailed(template.result(str(error))) from None
        if name == "XOAUTH2":
            response = xoauth2(settings.user, token)
        else:
            response = oauthbearer(settings.user, token, settings.host, settings.port)
        reply = await conversation.ask(SmtpPhase.AUTH, f"AUTH {name} ".encode() + b64encode(response))
        if reply.code == 334:  # The reason in JSON; the server sends its rejection after any response.
            reply = await conversation.ask(SmtpPhase.AUTH, b"AQ==" if name == "OAUTHBEARER" else b"")
        if reply.code != 535 or is_last:
            _require(reply, SmtpPhase.AUTH, 235)
            return
        settings.tokens.forget(token)


def _require(reply: SmtpReply, phase: SmtpPhase, code: int) -> SmtpReply:
    if reply.code != code:
        raise LoginFailed(interpret_rejection(phase, reply))
    return reply


def _unreachable(settings: SmtpSettings, error: Exception) -> LoginFailed:
    place = f"{settings.host}:{settings.port}"
    # An interrupted handshake is a network failure. Other handshake errors concern certificates or TLS versions.
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return LoginFailed(TLS_FAILED.result(f"TLS with {place} failed: {error}"))
    return LoginFailed(NOT_CONNECTED.result(f"no connection to {place}: {error}"))


def _address_literal(address: str) -> str:
    """Return the address literal that RFC 5321 requires from a client without a fully qualified host name."""
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"
