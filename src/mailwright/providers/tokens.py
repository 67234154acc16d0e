"""Access tokens as SMTP and IMAP use them."""

from typing import Protocol


class TokenUnavailable(Exception):
    """No access token. `is_configuration`: a person must change something."""

    def __init__(self, reason: str, *, is_configuration: bool) -> None:
        super().__init__(reason)
        self.is_configuration = is_configuration


class TokenSource(Protocol):
    async def token(self) -> str:
        """Return an access token, or raise `TokenUnavailable`."""
        ...

    def forget(self, token: str) -> None:
        """Fetch another token next time, because a server rejected this one."""
        ...


def xoauth2(user: str, token: str) -> bytes:
    """Return the response of the SASL mechanism XOAUTH2."""
    return f"user={user}\x01auth=Bearer {token}\x01\x01".encode()


def oauthbearer(user: str, token: str, host: str, port: int) -> bytes:
    """Return the response of the SASL mechanism OAUTHBEARER (RFC 7628)."""
    escaped = user.replace("=", "=3D").replace(",", "=2C")
    return f"n,a={escaped},\x01host={host}\x01port={port}\x01auth=Bearer {token}\x01\x01".encode()
