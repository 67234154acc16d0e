"""Verify the ID token of an identity provider (OpenID Connect) and read its claims."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from mailwright.access.oidc_settings import OidcSettings
from mailwright.access.roles import Forbidden
from mailwright.domain import address
from mailwright.domain.clock import MINUTE, SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass

# The allowed signatures and the type of their keys. Without `none` and HMAC, nobody can sign with a public key.
ALGORITHMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
# Tolerated difference between the clocks, and the maximum age of a token that was issued for this sign-in.
LEEWAY: Final[Instant] = MINUTE
MAX_TOKEN_AGE: Final[Instant] = 10 * MINUTE
_MAX_GROUPS: Final = 1_000


class IdTokenInvalid(Forbidden):
    """The identity provider sent an ID token that is not valid."""

    code = "ID_TOKEN_INVALID"


class UnknownKey(IdTokenInvalid):
    """The ID token was signed with a key that the identity provider does not publish."""

    code = "ID_TOKEN_KEY_UNKNOWN"


@dataclass(frozen=True, slots=True)
class Person:
    """A person as the identity provider describes them."""

    issuer: str
    subject: str
    email: str | None  # None if the address is missing, invalid or not verified
    groups: tuple[str, ...]
    proved_two_factors: bool


def verify_id_token(
    token: str, keys: Sequence[Mapping[str, Any]], settings: OidcSettings, *, nonce: str, now: Instant
) -> dict[str, Any]:
    """Return the claims of a token that this provider issued for this client and this sign-in, or raise."""
    claims = _verify_signature(token, keys)
    _check_audience(claims, settings)
    _check_times(claims, now)
    stated = claims.get("nonce")
    if not isinstance(stated, str) or not secrets.compare_digest(stated.encode(), nonce.encode()):
        raise IdTokenInvalid("The ID token belongs to another sign-in (nonce).")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise IdTokenInvalid("The ID token names no subject (sub).")
    return claims


def read_person(claims: Mapping[str, Any], settings: OidcSettings) -> Person:
    return Person(
        settings.issuer,
        claims["sub"],
        _verified_email(claims, settings),
        _groups(claims, settings.role_claim),
        not settings.second_factors.isdisjoint([*_texts(claims.get("amr")), *_texts(claims.get("acr"))]),
    )


def _verify_signature(token: str, keys: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import jwt  # noqa: PLC0415 - imported only if an identity provider is used

    try:
        header = jwt.get_unverified_header(token)
        name = str(header.get("alg"))
        if name not in ALGORITHMS or "crit" in header:
            raise IdTokenInvalid(f"The ID token has a signature of a kind that is not allowed: {name[:20]}.")
        key = jwt.PyJWK(_find_key(keys, header.get("kid"), name), algorithm=name)
        signatures = jwt.PyJWS(options={"enforce_minimum_key_length": True})
        claims = orjson.loads(signatures.decode(token, key, algorithms=[name]))
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise IdTokenInvalid("The signature of the ID token is not valid.") from error
    if not isinstance(claims, dict):
        raise IdTokenInvalid("The ID token contains no claims.")
    return claims


def _find_key(keys: Sequence[Mapping[str, Any]], key_id: Any, algorithm: str) -> dict[str, Any]:
    """Return the key with this id, or the only suitable one if the token names none."""
    suitable = [
        key
        for key in keys
        if key.get("kty") == ALGORITHMS[algorithm]
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
        and (key_id is None or key.get("kid") == key_id)
    ]
    if len(suitable) != 1:
        raise UnknownKey
    return dict(suitable[0])


def _check_audience(claims: Mapping[str, Any], settings: OidcSettings) -> None:
    if claims.get("iss") != settings.issuer:
        raise IdTokenInvalid("The ID token comes from another issuer (iss).")
    audience, party = claims.get("aud"), claims.get("azp")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or settings.client_id not in audiences:
        raise IdTokenInvalid("The ID token was issued for another application (aud).")
    if (party is not None or len(audiences) > 1) and party != settings.client_id:
        raise IdTokenInvalid("The ID token was issued for another application (azp).")


def _check_times(claims: Mapping[str, Any], now: Instant) -> None:
    issued, ends, begins = (_instant(claims, name) for name in ("iat", "exp", "nbf"))
    if ends is None or ends <= now - LEEWAY:
        raise IdTokenInvalid("The ID token has expired (exp).")
    if issued is None or not now - MAX_TOKEN_AGE <= issued <= now + LEEWAY:
        raise IdTokenInvalid("The ID token was not issued just now (iat). Check the clock of this server.")
    if begins is not None and begins > now + LEEWAY:
        raise IdTokenInvalid("The ID token is not valid yet (nbf). Check the clock of this server.")


def _instant(claims: Mapping[str, Any], name: str) -> Instant | None:
    seconds = claims.get(name)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 10**11:
        return None
    return int(seconds * SECOND)


def _verified_email(claims: Mapping[str, Any], settings: OidcSettings) -> str | None:
    email = claims.get("email")
    # Some providers send the flag as text.
    is_verified = settings.trusts_email or claims.get("email_verified") in (True, "true")
    if not isinstance(email, str) or not is_verified:
        return None
    try:
        return address.normal(address.trim(email))
    except address.InvalidAddress:
        return None


def _groups(claims: Mapping[str, Any], path: str) -> tuple[str, ...]:
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return tuple(_texts(value))


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values[:_MAX_GROUPS] if isinstance(each, str)]
