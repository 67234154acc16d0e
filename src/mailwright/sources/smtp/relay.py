"""The mail server to which shadow mode passes email on, and one session with it for each client."""

from typing import Final

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.providers.smtp.login import LoginConversation, LoginFailed, ServerFeatures, log_in
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.provider import tls_context
from mailwright.providers.smtp.responses import SessionEnd
from mailwright.providers.smtp.settings import SmtpSettings, Timeouts

# Extensions that need no code here, because their parameters and bytes are passed on unchanged.
PASSED_ON: Final = frozenset(
    {"8BITMIME", "BINARYMIME", "CHUNKING", "DELIVERBY", "DSN", "ENHANCEDSTATUSCODES", "MT-PRIORITY", "SMTPUTF8"}
)
# The relay is asked for its extensions again after this time.
EXTENSIONS_TIME: Final[Instant] = MINUTE
# The timeout of the relay's session while the client sends nothing. The client's own timeouts are shorter.
_REST_SECONDS: Final = 24 * 3600.0


class RelayUnavailable(Exception):
    """The relay cannot be reached, refused Mailwright, or ended the connection."""


class Relay:
    def __init__(self, settings: SmtpSettings, clock: Clock, timeouts: Timeouts | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._timeouts = timeouts or Timeouts()
        self._context = tls_context(settings)
        self._features: ServerFeatures | None = None
        self._asked_at: Instant = 0

    async def open(self, hostname: str) -> "RelaySession":
        """Connect and sign in. The relay gets the host name that the client sent."""
        try:
            conversation, self._features = await log_in(self._settings, self._context, self._timeouts, hostname)
        except LoginFailed as error:
            raise RelayUnavailable(str(error)) from error
        self._asked_at = self._clock.now()
        return RelaySession(conversation)

    def offers(self, extension: str) -> bool:
        """Return whether the relay offered an extension when it was last asked."""
        return self._features is not None and extension in self._features.offered

    async def extensions(self, hostname: str, max_bytes: int) -> list[str]:
        """Return the extensions that the client can use, from a recent connection if there was one."""
        if self._features is None or self._clock.now() - self._asked_at >= EXTENSIONS_TIME:
            (await self.open(hostname)).quit()
        assert self._features is not None
        found = [f"{name} {value}".strip() for name, value in self._features.offered.items() if name in PASSED_ON]
        return [f"SIZE {min(self._features.max_size_bytes or max_bytes, max_bytes)}", "PIPELINING", *found]


class RelaySession:
    """A session with the relay. Each command has one reply, which is returned unchanged."""

    def __init__(self, conversation: LoginConversation) -> None:
        self._conversation = conversation

    @property
    def has_ended(self) -> bool:
        return self._conversation.transport.has_ended

    async def ask(self, phase: SmtpPhase, data: bytes, end: bytes = b"\r\n") -> bytes:
        """Send bytes and their line end, and return the reply. A chunk has no line end."""
        transport = self._conversation.transport
        try:
            reply = await self._conversation.ask(phase, data, end)
        except LoginFailed as error:
            raise RelayUnavailable(str(error)) from error
        if not transport.has_ended:
            transport.allow(_REST_SECONDS)
        lines = [line.rstrip(b"\r") for line in reply.lines]
        before = b"".join(b"%03d-%b\r\n" % (reply.code, line) for line in lines[:-1])
        return before + b"%03d %b\r\n" % (reply.code, lines[-1])

    def quit(self) -> None:
        """End the session after the last transaction."""
        if not self.has_ended:
            self._conversation.transport.write(b"QUIT\r\n")
            self._conversation.transport.close()

    def abort(self) -> None:
        """End the session at once. The relay drops an email whose end it has not received."""
        self._conversation.transport.end(SessionEnd.LOST, "the client is gone")


class Upstream:
    """The session of one client with the relay. It is opened for the first email, and again if the relay closed it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._session: RelaySession | None = None

    @property
    def is_open(self) -> bool:
        return self._session is not None

    async def begin(self, hostname: str, line: bytes) -> bytes:
        """Send MAIL, and return the reply. If the relay has closed the idle session, open another one first."""
        if self._session is not None and not self._session.has_ended:
            try:
                return await self._session.ask(SmtpPhase.MAIL, line)
            except RelayUnavailable:
                pass
        self._session = None
        self._session = await self._relay.open(hostname)
        return await self._session.ask(SmtpPhase.MAIL, line)

    async def ask(self, phase: SmtpPhase, data: bytes, end: bytes = b"\r\n") -> bytes:
        if self._session is None:
            raise RelayUnavailable("there is no connection")
        return await self._session.ask(phase, data, end)

    def quit(self) -> None:
        """End the session after the last email."""
        if self._session is not None:
            self._session.quit()
            self._session = None

    def drop(self) -> None:
        """End the session at once, and with it an email whose content is not complete."""
        if self._session is not None:
            self._session.abort()
            self._session = None
