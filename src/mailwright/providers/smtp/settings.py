"""Settings of one SMTP server: address, encryption, credentials and timeouts."""

from dataclasses import field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.tokens import TokenSource


class Tls(StrEnum):
    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"  # TLS from the first byte.


class Purpose(StrEnum):
    TEST = "test"  # The server only collects email, so the rules for bulk senders do not apply.


class SmtpAuth(StrEnum):
    PASSWORD = "password"  # noqa: S105 - the name of a mechanism
    XOAUTH2 = "xoauth2"  # An access token; OAUTHBEARER if the server offers only that.


DEFAULT_CONNECTIONS = 20


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    host: str
    port: int
    tls: Tls
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None  # Trust these certificates instead of the system's.
    connections: int | None = None  # The maximum number of connections for all messages.
    # Some servers close long connections during a transaction. Closing first costs a handshake, but risks no message.
    messages_per_connection: int = 1_000
    auth: SmtpAuth = SmtpAuth.PASSWORD
    purpose: Purpose | None = None
    tokens: TokenSource | None = field(default=None, repr=False)  # The source of access tokens for XOAUTH2.

    def __post_init__(self) -> None:
        if self.auth is SmtpAuth.XOAUTH2:
            if self.user is None or self.password is not None:
                raise ConfigurationInvalid(
                    lazy_gettext("auth=xoauth2 needs a user and no password: smtp://user@host?auth=xoauth2")
                )
        elif (self.user is None) != (self.password is None):
            raise ConfigurationInvalid(lazy_gettext("SMTP needs both a user and a password, or neither"))
        if self.user is not None and self.tls is Tls.NONE and not is_loopback(self.host):
            raise ConfigurationInvalid(
                lazy_gettext(
                    "SMTP would send the password to {host} unencrypted: use tls=starttls or tls=tls", host=self.host
                )
            )
        if (self.connections is not None and self.connections < 1) or self.messages_per_connection < 1:
            raise ConfigurationInvalid(
                lazy_gettext("SMTP needs at least one connection and one message per connection")
            )

    @property
    def bulk_connections(self) -> int:
        """The maximum number of connections for bulk messages."""
        return self.connections or DEFAULT_CONNECTIONS

    @property
    def max_connections(self) -> int:
        """The maximum number of connections. By default it leaves some to transactional messages."""
        return self.connections or 2 * DEFAULT_CONNECTIONS


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds. The timeouts for replies to a message are the minimum of RFC 5321, 4.5.3.2."""

    connect: float = 30.0  # To connect, including the TLS handshake.
    # Shorter than RFC 5321 recommends, because no message is at risk yet and a hanging server must not delay recovery.
    greeting: float = 30.0
    hello: float = 30.0
    starttls: float = 120.0
    auth: float = 300.0
    mail: float = 300.0
    rcpt: float = 300.0
    data: float = 120.0
    block: float = 180.0  # To send a part of the content.
    # For the reply after the content. The server may be storing the message; disconnecting would cause duplicates.
    dot: float = 600.0
    reset: float = 300.0
    quit: float = 2.0  # The reply to QUIT does not matter, so do not wait long.
    idle: float = 30.0  # How long an idle connection is kept.


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
