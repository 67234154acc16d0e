"""Access tokens of OAuth 2.0 for SMTP and IMAP, where passwords are switched off: Microsoft 365 and Gmail.

A token is fetched once for all connections and reused until shortly before it expires. Tokens are never logged.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.providers.api_provider import require_https
from mailwright.providers.api_responses import read_object
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.providers.responses import mask_addresses, one_line
from mailwright.providers.tokens import TokenUnavailable

TIMEOUT_SECONDS: Final = 30.0
# A token is not used in the last minutes of its lifetime, because the server may check it during a long session.
MARGIN: Final[Instant] = 5 * MINUTE
DEFAULT_LIFETIME: Final[Instant] = 10 * MINUTE
_MAX_DESCRIPTION: Final = 300
# What to do about an error of the token endpoint (RFC 6749, section 5.2).
_ADVICE: Final = {
    "invalid_grant": "sign in again, and set the new MAILWRIGHT_OAUTH_REFRESH_TOKEN",
    "invalid_client": "check MAILWRIGHT_OAUTH_CLIENT_ID and MAILWRIGHT_OAUTH_CLIENT_SECRET, which may have expired",
    "unauthorized_client": "allow this kind of sign-in for the application, or set MAILWRIGHT_OAUTH_REFRESH_TOKEN",
    "invalid_scope": "check MAILWRIGHT_OAUTH_SCOPE and the permissions of the application",
    "unsupported_grant_type": "check MAILWRIGHT_OAUTH_TOKEN_URL",
    "invalid_request": "check MAILWRIGHT_OAUTH_TOKEN_URL and MAILWRIGHT_OAUTH_SCOPE",
}


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)  # Without it, the application signs in as itself.
    scope: str | None = None

    def __post_init__(self) -> None:
        require_https("the token", self.token_url)
        if not urlsplit(self.token_url).hostname:
            raise ConfigurationInvalid("the token URL has no host")
        if self.client_secret is None and self.refresh_token is None:
            raise ConfigurationInvalid("set a client secret, a refresh token, or both")

    @property
    def form(self) -> dict[str, str]:
        fields = {
            "grant_type": "client_credentials" if self.refresh_token is None else "refresh_token",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
            "refresh_token": self.refresh_token,
            "scope": self.scope,
        }
        return {name: value for name, value in fields.items() if value}


class OAuthTokens:
    """Fetches and caches the token of one application or user."""

    def __init__(self, settings: OAuthSettings, http: HttpClient, clock: Clock) -> None:
        self._form = settings.form
        self._url = settings.token_url
        self._http = http
        self._clock = clock
        self._fetching = asyncio.Lock()
        self._token: str | None = None
        self._until: Instant = 0

    async def token(self) -> str:
        async with self._fetching:  # One request for all connections that wait.
            if self._token is None or self._clock.now() >= self._until:
                self._token = None
                self._token = await self._fetch()
            return self._token

    def forget(self, token: str) -> None:
        if self._token == token:
            self._token = None

    async def _fetch(self) -> str:
        asked_at = self._clock.now()
        reply = await self._http.request(
            "POST",
            self._url,
            headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
            body=urlencode(self._form).encode(),
            timeout_seconds=TIMEOUT_SECONDS,
        )
        host = urlsplit(self._url).netloc
        if isinstance(reply, Disconnect):
            raise TokenUnavailable(f"no access token from {host}: {reply.cause}", is_configuration=False)
        answer = read_object(reply.body)
        token = answer.get("access_token")
        if reply.status != 200 or not isinstance(token, str) or not _is_plain(token):
            raise _refusal(host, reply)
        lifetime = _lifetime(answer.get("expires_in"))
        # Short-lived tokens are used for most of their lifetime.
        self._until = asked_at + lifetime - min(MARGIN, lifetime // 5)
        if isinstance(renewed := answer.get("refresh_token"), str) and renewed and "refresh_token" in self._form:
            self._form["refresh_token"] = renewed
        return token


def _refusal(host: str, reply: HttpResponse) -> TokenUnavailable:
    answer = read_object(reply.body)
    error, description = answer.get("error"), answer.get("error_description")
    if not isinstance(error, str):
        is_temporary = reply.status >= 500 or reply.status == 429
        reason = f"{host} responded with {reply.status} and no access token; check MAILWRIGHT_OAUTH_TOKEN_URL"
        return TokenUnavailable(reason, is_configuration=not is_temporary)
    name = one_line(error)[:60]
    detail = f" ({mask_addresses(one_line(description))[:_MAX_DESCRIPTION]})" if isinstance(description, str) else ""
    if name in ("temporarily_unavailable", "server_error") or reply.status >= 500:
        return TokenUnavailable(f"no access token from {host}: {name}{detail}", is_configuration=False)
    advice = f": {_ADVICE[name]}" if name in _ADVICE else ""
    return TokenUnavailable(f"no access token from {host}: {name}{advice}{detail}", is_configuration=True)


def _lifetime(seconds: object) -> Instant:
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) < 9:
        seconds = int(seconds)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < 10**8:
        return DEFAULT_LIFETIME
    return int(seconds) * SECOND


def _is_plain(token: str) -> bool:
    """Return whether a token can be sent: visible ASCII, so that it adds nothing to a command."""
    return bool(token) and token.isascii() and token.isprintable() and " " not in token
