"""The SMTP server of a process: it accepts connections, enforces limits and stores emails in the outbox."""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from mailwright.access.api_keys import ApiKeys, Caller
from mailwright.access.failed_sign_ins import FailedSignIns
from mailwright.access.roles import Scope
from mailwright.access.sign_in_log import SignInMethod
from mailwright.content.raw import MAX_RAW_BYTES
from mailwright.domain.clock import Clock
from mailwright.domain.errors import Unauthorized
from mailwright.domain.ids import uuid7
from mailwright.domain.network import is_loopback_address, network_of
from mailwright.ops.logs import logger
from mailwright.sources.api.messages import RequestContext
from mailwright.sources.api.raw import AcceptedRaw, Envelope, RawMessages
from mailwright.sources.smtp import replies
from mailwright.sources.smtp.connection import SubmissionConnection
from mailwright.sources.smtp.intake_rate import IntakeRate
from mailwright.sources.smtp.relay import Relay
from mailwright.sources.smtp.session import SubmissionSession
from mailwright.sources.smtp.shadow import ShadowRecorder
from mailwright.sources.smtp.shadow_session import ShadowSession
from mailwright.sources.smtp.steps import Client

log = logger(__name__)

# Every API key can sign in with this user name, as with other email services.
KEY_USER: Final = "apikey"
# Failed sign-ins are counted for this account name and the client's network address.
_ACCOUNT: Final = "smtp"
# Memory for large emails that are arriving, on all connections together.
MAX_BUFFERED_BYTES: Final = 256 * 1024 * 1024
# The largest email that shadow mode passes on. It is held in memory until the relay has it.
MAX_PASSED_BYTES: Final = 64 * 1024 * 1024


class SmtpServer:
    """Serves connections on several sockets. `max_connections` is the limit for all clients together."""

    def __init__(
        self,
        keys: ApiKeys,
        sign_ins: FailedSignIns,
        raw_messages: RawMessages,
        clock: Clock,
        *,
        max_connections: int,
        messages_per_minute: int | None = None,
        tls: ssl.SSLContext | None = None,
        shadow: tuple[Relay, ShadowRecorder] | None = None,
    ) -> None:
        """`messages_per_minute` is the limit for one API key.

        `shadow` passes all email on to a relay, instead of storing it in the outbox.
        """
        self._keys = keys
        self._sign_ins = sign_ins
        self._raw_messages = raw_messages
        self._clock = clock
        self._max_connections = max_connections
        self._rate = IntakeRate(clock, messages_per_minute)
        self._name = socket.gethostname()
        self._connections: dict[SubmissionConnection, str] = {}  # The client's network by connection.
        self._per_network: Counter[str] = Counter()
        self._buffered = 0
        self._servers: list[asyncio.Server] = []
        self._is_stopping = False
        self._is_empty = asyncio.Event()  # Set while there is no connection.
        self._is_empty.set()
        self.tls = tls
        self.max_bytes = MAX_RAW_BYTES if shadow is None else MAX_PASSED_BYTES
        self._shadow = shadow
        self.greeting = replies.reply(220, "", f"{self._name} Mailwright ESMTP")

    async def serve(self, listeners: Mapping[socket.socket, bool]) -> None:
        """Accept connections on these sockets; the value is true if connections begin with TLS."""
        loop = asyncio.get_running_loop()
        for listener, is_encrypted in listeners.items():
            tls = self.tls if is_encrypted else None
            self._servers.append(await loop.create_server(lambda: SubmissionConnection(self), sock=listener, ssl=tls))

    async def stop(self, grace_seconds: float) -> None:
        """Refuse new connections, end idle ones, and let emails that are being stored finish. Then abort the rest."""
        self._is_stopping = True
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._is_empty.wait()
        for connection in list(self._connections):
            connection.abort()
        if self._shadow is not None:
            await self._shadow[1].close()

    # Called by connections.

    def open(self, connection: SubmissionConnection, address: str, *, is_encrypted: bool) -> SubmissionSession | bytes:
        if self._is_stopping:
            return replies.STOPPING
        network = network_of(address) if address else ""
        # One network may use half of the connections; programs on this machine may use all.
        share = self._max_connections if is_loopback_address(address) else max(self._max_connections // 2, 1)
        if len(self._connections) >= self._max_connections or self._per_network[network] >= share:
            return replies.TOO_MANY_CONNECTIONS
        self._connections[connection] = network
        self._is_empty.clear()
        self._per_network[network] += 1
        options: dict[str, Any] = {
            "request_id": uuid7(self._clock.now()),
            "name": self._name,
            "address": address,
            "can_start_tls": self.tls is not None and not is_encrypted,
            "needs_tls": not is_encrypted and not is_loopback_address(address),
        }
        if self._shadow is None:
            return SubmissionSession(self, **options)
        relay, recorder = self._shadow
        return ShadowSession(self, relay=relay, recorder=recorder, **options)

    def closed(self, connection: SubmissionConnection) -> None:
        network = self._connections.pop(connection, None)
        if network is not None:
            self._per_network[network] -= 1
            if not self._per_network[network]:
                del self._per_network[network]
        if not self._connections:
            self._is_empty.set()

    def reserve(self, size: int) -> bool:
        if self._buffered + size > MAX_BUFFERED_BYTES:
            return False
        self._buffered += size
        return True

    def release(self, size: int) -> None:
        self._buffered -= size

    # Called by sessions.

    async def sign_in(self, user: str, key: str, address: str) -> None:
        """Accept a valid key even from a blocked address: keys cannot be guessed. Failures count as failed sign-ins."""
        caller = await self._find(user, key)
        if caller is None:
            await self._sign_ins.check(_ACCOUNT, address, _fail, SignInMethod.SMTP)
            log.warning("smtp_sign_in_failed", address=address)
            raise Unauthorized
        caller.require(Scope.SEND)

    async def find_caller(self, client: Client) -> Caller:
        return await self._keys.authenticate_key(client.key)

    async def submit(self, client: Client, envelope: Envelope, content: bytes) -> bytes:
        context = RequestContext(await self.find_caller(client), client.request_id)
        self._rate.take(client.key, len(envelope.recipients))
        return _accepted(await self._raw_messages.send(context, content, envelope.sender, envelope.recipients))

    async def _find(self, user: str, key: str) -> Caller | None:
        try:
            caller = await self._keys.authenticate_key(key)
        except Unauthorized:
            return None
        return caller if user.lower() == KEY_USER or (user and user == caller.key_name) else None


async def _fail() -> None:
    return None


def _accepted(email: AcceptedRaw) -> bytes:
    """Return the reply with the id of each message, because clients log it."""
    lines = [
        f"2.0.0 {'Already accepted' if message.is_replay else 'Accepted'}: {message.outbox_id}"
        for message in email.messages
    ]
    lines[-1] += "".join([f" ({warning.code})" for warning in email.warnings])
    return replies.multiline(250, lines)
