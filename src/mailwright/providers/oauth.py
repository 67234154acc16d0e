"""Access tokens of OAuth 2.0 for SMTP and IMAP, where passwords are switched off: Microsoft 365 and Gmail.

A token is fetched once for all connections and reused until shortly before it expires. Tokens are never logged.
"""

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import orjson

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
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
# The advice for each error of the token endpoint (RFC 6749, section 5.2).
_ADVICE: Final = {
    "invalid_grant": "sign in again, and set the new MAILWRIGHT_OAUTH_REFRESH_TOKEN",
    "invalid_client": "check MAILWRIGHT_OAUTH_CLIENT_ID and MAILWRIGHT_OAUTH_CLIENT_SECRET, which may have expired",
    "unauthorized_client": "allow this kind of sign-in for the application, or set MAILWRIGHT_OAUTH_REFRESH_TOKEN",
    "invalid_scope": "check MAILWRIGHT_OAUTH_SCOPE and the permissions of the application",
    "unsupported_grant_type": "check MAILWRIGHT_OAUTH_TOKEN_URL",
    "invalid_request": "check MAILWRIGHT_OAUTH_TOKEN_URL and MAILWRIGHT_OAUTH_SCOPE",
}
_ALLOW_SCOPE: Final = "allow its scope in the Google Admin console, under domain-wide delegation"
_SERVICE_ACCOUNT_ADVICE: Final = {
    "invalid_grant": "check that the mailbox's user exists, that the key was not deleted, and this machine's clock",
    "unauthorized_client": _ALLOW_SCOPE,
    "access_denied": _ALLOW_SCOPE,
    "invalid_scope": "check MAILWRIGHT_OAUTH_SCOPE",
}


# The grant with which an application proves its identity by a signed JWT (RFC 7523), and how long the JWT is valid.
JWT_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_JWT_LIFETIME: Final[Instant] = 10 * MINUTE
GMAIL_SCOPE: Final = "https://mail.google.com/"
GOOGLE_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The key of a Google service account. With domain-wide delegation it acts for `user`."""

    email: str
    key: Any = field(repr=False)  # an RSA private key
    key_id: str | None
    token_url: str
    user: str

    @classmethod
    def parse(cls, text: str, user: str) -> "ServiceAccount":
        """Read the content of the JSON file that Google creates. Error messages never quote it."""
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # noqa: PLC0415 - large
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415

        try:
            values = orjson.loads(text)
            email, pem = values["client_email"], values["private_key"]
            key = load_pem_private_key(pem.encode(), password=None)
            token_url = values.get("token_uri") or GOOGLE_TOKEN_URL
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigurationInvalid(
                lazy_gettext("must be the content of a service account's JSON file, with client_email and private_key")
            ) from None
        if not isinstance(key, RSAPrivateKey) or not isinstance(email, str) or not isinstance(token_url, str):
            raise ConfigurationInvalid(lazy_gettext("must be the key of a Google service account, which is an RSA key"))
        key_id = values.get("private_key_id")
        return cls(email, key, key_id if isinstance(key_id, str) else None, token_url, user)

    def assertion(self, scope: str, now: Instant) -> str:
        """Return a signed JWT that asks for a token of the user."""
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

        header = {"alg": "RS256", "typ": "JWT"} | ({"kid": self.key_id} if self.key_id else {})
        times = {"iat": now // SECOND, "exp": (now + _JWT_LIFETIME) // SECOND}
        claims = {"iss": self.email, "sub": self.user, "scope": scope, "aud": self.token_url, **times}
        signed = f"{_encoded(orjson.dumps(header))}.{_encoded(orjson.dumps(claims))}"
        return f"{signed}.{_encoded(self.key.sign(signed.encode(), PKCS1v15(), SHA256()))}"


def _encoded(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    token_url: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)  # Without it, the application signs in as itself.
    scope: str | None = None
    service_account: ServiceAccount | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_https(lazy_gettext("the token endpoint"), self.token_url)
        if not urlsplit(self.token_url).hostname:
            raise ConfigurationInvalid(lazy_gettext("the token URL has no host"))
        if self.client_secret is None and self.refresh_token is None and self.service_account is None:
            raise ConfigurationInvalid(lazy_gettext("set a client secret, a refresh token, or both"))

    def form(self, now: Instant) -> dict[str, str]:
        if self.service_account is not None:
            return {
                "grant_type": JWT_GRANT,
                "assertion": self.service_account.assertion(self.scope or GMAIL_SCOPE, now),
            }
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
        self._settings = settings
        self._refresh_token: str | None = None  # The latest one, if the server has renewed it.
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
        form = self._settings.form(asked_at)
        if self._refresh_token is not None:
            form["refresh_token"] = self._refresh_token
        reply = await self._http.request(
            "POST",
            self._url,
            headers={"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"},
            body=urlencode(form).encode(),
            timeout_seconds=TIMEOUT_SECONDS,
        )
        host = urlsplit(self._url).netloc
        if isinstance(reply, Disconnect):
            raise TokenUnavailable(f"no access token from {host}: {reply.cause}", is_configuration=False)
        answer = read_object(reply.body)
        token = answer.get("access_token")
        if reply.status != 200 or not isinstance(token, str) or not _is_plain(token):
            raise _refusal(host, reply, _SERVICE_ACCOUNT_ADVICE if self._settings.service_account else _ADVICE)
        lifetime = _lifetime(answer.get("expires_in"))
        # Short-lived tokens are used for most of their lifetime.
        self._until = asked_at + lifetime - min(MARGIN, lifetime // 5)
        if isinstance(renewed := answer.get("refresh_token"), str) and renewed and "refresh_token" in form:
            self._refresh_token = renewed
        return token


def _refusal(host: str, reply: HttpResponse, advices: Mapping[str, str]) -> TokenUnavailable:
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
    advice = f": {advices[name]}" if name in advices else ""
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
