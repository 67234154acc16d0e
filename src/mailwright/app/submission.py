"""Open the SMTP server according to the settings."""

import asyncio
import os
import socket
import ssl

from mailwright.app.listening import open_socket
from mailwright.app.sender_directory import sender_domains
from mailwright.app.wiring import Engine
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.network import is_loopback_address
from mailwright.domain.shadow import SmtpMode
from mailwright.ops.child_process import this_child
from mailwright.ops.logs import logger
from mailwright.ops.settings import Settings
from mailwright.providers.smtp.url import parse_smtp_url
from mailwright.sources.smtp.relay import Relay
from mailwright.sources.smtp.server import SmtpServer
from mailwright.sources.smtp.shadow import ShadowRecorder

PLAIN_SETTING = "MAILWRIGHT_SMTP_LISTEN"
TLS_SETTING = "MAILWRIGHT_SMTP_LISTEN_TLS"

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class SubmissionSockets:
    """The SMTP sockets, each with a flag for implicit TLS, and the certificate."""

    listeners: dict[socket.socket, bool]
    tls: ssl.SSLContext | None


def open_submission(settings: Settings) -> SubmissionSockets | None:
    """Open the sockets before anything starts, so that a port in use is reported clearly; None if SMTP is off."""
    if settings.smtp_listen is None and settings.smtp_listen_tls is None:
        return None
    tls = _certificate(settings)
    listeners: dict[socket.socket, bool] = {}
    if settings.smtp_listen is not None:
        host, port = _address(settings.smtp_listen, PLAIN_SETTING)
        if tls is None and not is_loopback_address(host):
            raise ConfigurationInvalid(
                f"{PLAIN_SETTING}: {host} is reachable from other machines, and passwords would not be encrypted; set "
                f"MAILWRIGHT_SMTP_CERTIFICATE_FILE and MAILWRIGHT_SMTP_KEY_FILE, or listen on 127.0.0.1"
            )
        listeners[_listen(host, port, PLAIN_SETTING)] = False
    if settings.smtp_listen_tls is not None:
        if tls is None:
            raise ConfigurationInvalid(
                f"{TLS_SETTING}: set MAILWRIGHT_SMTP_CERTIFICATE_FILE and MAILWRIGHT_SMTP_KEY_FILE"
            )
        listeners[_listen(*_address(settings.smtp_listen_tls, TLS_SETTING), TLS_SETTING)] = True
    return SubmissionSockets(listeners, tls)


async def run_submission(engine: Engine, sockets: SubmissionSockets) -> None:
    """Serve until cancelled, then let emails that are being stored finish."""
    settings = engine.settings
    server = SmtpServer(
        engine.keys,
        engine.failed_sign_ins,
        engine.raw_messages,
        engine.clock,
        max_connections=settings.smtp_listen_connections,
        messages_per_minute=settings.smtp_listen_rate,
        tls=sockets.tls,
        shadow=make_shadow(engine),
    )
    # The server closes its sockets when it stops, but the next one, with other settings, uses the same port.
    await server.serve({listener.dup(): is_encrypted for listener, is_encrypted in sockets.listeners.items()})
    addresses = ["{}:{}".format(*listener.getsockname()[:2]) for listener in sockets.listeners]
    log.info("smtp_started", addresses=addresses, mode=settings.smtp_mode.value)
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop(settings.shutdown_grace_seconds)
        log.info("smtp_stopped")


def make_shadow(engine: Engine) -> tuple[Relay, ShadowRecorder] | None:
    """Return the relay of shadow mode and the recorder of its email; None if shadow mode is off."""
    settings = engine.settings
    if settings.smtp_mode is SmtpMode.DELIVER or settings.smtp_relay_url is None:
        return None
    try:
        relay = Relay(parse_smtp_url(settings.smtp_relay_url.get_secret_value()), engine.clock)
    except ConfigurationInvalid as error:
        raise ConfigurationInvalid(f"MAILWRIGHT_SMTP_RELAY_URL: {error}") from error
    domains, limits = sender_domains(settings), engine.defaults.limits
    return relay, ShadowRecorder(engine.database, engine.clock, domains, limits)


def _address(text: str, setting: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigurationInvalid(f"{setting}: {text!r} is not host:port, for example 127.0.0.1:2525")
    return "127.0.0.1" if host == "localhost" else host, int(port)


def _listen(host: str, port: int, setting: str) -> socket.socket:
    try:
        # The processes of a supervisor share the port.
        return open_socket(host, port, shares_port=this_child() is not None)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error.strerror)
        raise ConfigurationInvalid(f"{setting}: cannot listen on {host}:{port}: {reason}") from error


def _certificate(settings: Settings) -> ssl.SSLContext | None:
    files = (settings.smtp_certificate_file, settings.smtp_key_file)
    if files == (None, None):
        return None
    if None in files:
        raise ConfigurationInvalid("MAILWRIGHT_SMTP_CERTIFICATE_FILE, MAILWRIGHT_SMTP_KEY_FILE: set both, or neither")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(str(files[0]), str(files[1]))
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or str(error)
        raise ConfigurationInvalid(f"MAILWRIGHT_SMTP_CERTIFICATE_FILE, MAILWRIGHT_SMTP_KEY_FILE: {reason}") from error
    return context
