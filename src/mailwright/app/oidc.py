"""The client of an identity provider: OpenID Connect with authorization code, PKCE, state and nonce.

Discovery document and keys are cached. A broken or unreachable provider raises `ProviderUnavailable`; it never affects
sign-ins with a password.
"""

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import orjson

from mailwright.access.id_tokens import Person, UnknownKey, read_person, verify_id_token
from mailwright.access.oidc_settings import OidcSettings, is_safe_url
from mailwright.access.roles import Forbidden
from mailwright.domain.clock import HOUR, MINUTE, Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mailwright.providers.http import HttpClient

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"
TIMEOUT_SECONDS: Final = 8.0
# The largest known documents have about 30 KB.
MAX_DOCUMENT_BYTES: Final = 256 * 1024
CACHED_FOR: Final[Instant] = HOUR
# Minimum time between two downloads of the keys for a token with an unknown key, so that nobody can cause a flood.
KEYS_INTERVAL: Final[Instant] = MINUTE
_MAX_CODE: Final = 4_096


class ProviderUnavailable(MailwrightError):
    """The identity provider cannot be used now."""

    code = "IDENTITY_PROVIDER_UNAVAILABLE"


class SignInDenied(Forbidden):
    """The identity provider did not sign you in."""

    code = "SIGN_IN_DENIED"


@dataclass(frozen=True, slots=True)
class Discovery:
    """The parts of the provider's discovery document that Mailwright uses."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    posts_secret: bool  # The provider expects the client's secret in the body, not in a header.
    states_issuer: bool  # The provider adds its issuer to the callback (RFC 9207).


@dataclass(frozen=True, slots=True)
class Flow:
    """The secrets of one sign-in, which stay in the browser's encrypted cookie."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def begin(cls) -> "Flow":
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))


class OidcClient:
    def __init__(self, settings: OidcSettings, clock: Clock, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.settings = settings
        self._clock = clock
        self._timeout_seconds = timeout_seconds
        self._http: HttpClient | None = None
        self._discovery: Discovery | None = None
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._discovered_at = self._keys_at = -CACHED_FOR

    async def authorization_url(self, flow: Flow) -> str:
        """Return the page of the provider where the person signs in."""
        endpoint = (await self.discover()).authorization_endpoint
        challenge = base64.urlsafe_b64encode(hashlib.sha256(flow.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_uri,
            "scope": self.settings.scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def finish(self, flow: Flow, answer: Mapping[str, str]) -> Person:
        """Exchange the code of the callback for an ID token, and return the person that it describes."""
        discovery = await self.discover()
        _check_answer(flow, answer, self.settings, discovery)
        tokens = await self._exchange(discovery, flow, answer["code"])
        claims = await self._verify(str(tokens.get("id_token", "")), flow.nonce)
        return read_person(await self._with_user_info(discovery, claims, tokens), self.settings)

    async def discover(self) -> Discovery:
        """Return the discovery document of the provider, from the cache if it is fresh."""
        now = self._clock.now()
        if self._discovery is None or now - self._discovered_at >= CACHED_FOR:
            document = await self._request("GET", self.settings.issuer.rstrip("/") + DISCOVERY_PATH)
            self._discovery = _read_discovery(document, self.settings.issuer)
            self._discovered_at = now
        return self._discovery

    async def load_keys(self) -> Sequence[Mapping[str, Any]]:
        """Download the keys that sign the provider's tokens."""
        document = await self._request("GET", (await self.discover()).jwks_uri)
        keys = document.get("keys")
        found = [key for key in keys if isinstance(key, dict)] if isinstance(keys, list) else []
        if not found:
            raise ProviderUnavailable("The identity provider publishes no keys.")
        self._keys, self._keys_at = found, self._clock.now()
        return found

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _exchange(self, discovery: Discovery, flow: Flow, code: str) -> dict[str, Any]:
        settings = self.settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.redirect_uri,
            "code_verifier": flow.verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if discovery.posts_secret:
            form |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        else:
            pair = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return await self._request("POST", discovery.token_endpoint, headers, urlencode(form).encode())

    async def _verify(self, token: str, nonce: str) -> dict[str, Any]:
        """Verify with the cached keys. If the provider has new ones, download them once and try again."""
        now = self._clock.now()
        if now - self._keys_at >= CACHED_FOR:
            await self.load_keys()
        try:
            return verify_id_token(token, self._keys, self.settings, nonce=nonce, now=now)
        except UnknownKey:
            if now - self._keys_at < KEYS_INTERVAL:
                raise
            return verify_id_token(token, await self.load_keys(), self.settings, nonce=nonce, now=now)

    async def _with_user_info(
        self, discovery: Discovery, claims: dict[str, Any], tokens: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Add the claims that the provider only returns from its user info endpoint."""
        needed = {"email", *([self.settings.role_claim.partition(".")[0]] if self.settings.rules else [])}
        access = tokens.get("access_token")
        if needed <= claims.keys() or discovery.userinfo_endpoint is None or not isinstance(access, str):
            return claims
        info = await self._request("GET", discovery.userinfo_endpoint, {"Authorization": f"Bearer {access}"})
        if info.get("sub") != claims["sub"]:
            raise ProviderUnavailable("The identity provider returned information about another person.")
        if "email" in claims:
            # Take "verified" from the same source as the address.
            info = {name: value for name, value in info.items() if name not in ("email", "email_verified")}
        return {**info, **claims}

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> dict[str, Any]:
        """Return the JSON object of a response. Redirects are not followed."""
        from mailwright.providers.http import Disconnect, HttpClient  # noqa: PLC0415 - takes 0.1 s, imported on use

        self._http = self._http or HttpClient(connections=8)
        reply = await self._http.request(
            method,
            url,
            headers={"Accept": "application/json", **(headers or {})},
            body=body,
            timeout_seconds=self._timeout_seconds,
            max_response_bytes=MAX_DOCUMENT_BYTES,
        )
        if isinstance(reply, Disconnect):
            raise ProviderUnavailable(
                "The identity provider cannot be reached: {cause} ({url}).", cause=reply.cause, url=_shown(url)
            )
        content = _json_object(reply.body)
        if reply.status != 200:
            reason = f": {_error_code(content['error'])}" if content is not None and "error" in content else ""
            raise ProviderUnavailable(
                "The identity provider answered with the status {status}{reason} ({url}).",
                status=reply.status,
                reason=reason,
                url=_shown(url),
            )
        if content is None:
            raise ProviderUnavailable(
                "The response of the identity provider is not a JSON object ({url}).", url=_shown(url)
            )
        return content


def _check_answer(flow: Flow, answer: Mapping[str, str], settings: OidcSettings, discovery: Discovery) -> None:
    if not secrets.compare_digest(answer.get("state", "").encode(), flow.state.encode()):
        raise SignInDenied("This answer belongs to another sign-in. Start again.")
    stated = answer.get("iss")
    if (stated is not None or discovery.states_issuer) and stated != settings.issuer:
        raise SignInDenied("This answer comes from another identity provider.")
    if "error" in answer:
        raise SignInDenied("The identity provider did not sign you in: {answer}.", answer=_error_code(answer["error"]))
    if not 0 < len(answer.get("code", "")) <= _MAX_CODE:
        raise SignInDenied("The answer of the identity provider contains no code. Start again.")


def _read_discovery(document: Mapping[str, Any], issuer: str) -> Discovery:
    stated = document.get("issuer")
    if stated != issuer:
        raise ProviderUnavailable(
            "The identity provider calls itself {stated}. Set MAILWRIGHT_OIDC_ISSUER to exactly this if "
            "it is the right one.",
            stated=repr(str(stated)[:200]),
        )
    names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
    urls = {name: document.get(name) for name in names}
    user_info = document.get("userinfo_endpoint")
    for name, url in {**urls, **({"userinfo_endpoint": user_info} if user_info is not None else {})}.items():
        if not (isinstance(url, str) and is_safe_url(url) and _is_as_safe(url, issuer)):
            raise ProviderUnavailable("The discovery document has no secure URL for {name}.", name=name)
    stated_methods = document.get("token_endpoint_auth_methods_supported")
    methods = stated_methods if isinstance(stated_methods, list) else ["client_secret_basic"]
    posts_secret = "client_secret_basic" not in methods
    if posts_secret and "client_secret_post" not in methods:
        raise ProviderUnavailable("The identity provider supports no client secret. Change the type of the client.")
    return Discovery(
        authorization_endpoint=str(urls["authorization_endpoint"]),
        token_endpoint=str(urls["token_endpoint"]),
        jwks_uri=str(urls["jwks_uri"]),
        userinfo_endpoint=user_info,
        posts_secret=posts_secret,
        states_issuer=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _is_as_safe(url: str, issuer: str) -> bool:
    """Return whether a URL uses HTTPS if the issuer does."""
    return url.startswith("https:") or issuer.startswith("http:")


def _error_code(error: Any) -> str:
    """Return the error code of a response without anything that could be mistaken for our own text."""
    return re.sub(r"[^A-Za-z0-9_-]", "", str(error)[:60]) or "unknown reason"


def _json_object(body: bytes) -> dict[str, Any] | None:
    try:
        content = orjson.loads(body)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _shown(url: str) -> str:
    return url.partition("?")[0][:200]
