"""Verify requests that are signed with AWS Signature Version 4, in the Authorization header."""

import hashlib
import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote

from mailwright.domain.clock import MINUTE, Instant, to_instant
from mailwright.domain.errors import Unauthorized
from mailwright.domain.lazy_dataclass import dataclass

ALGORITHM: Final = "AWS4-HMAC-SHA256"
# A signature is valid for this time before and after the time in the request, because clocks differ.
MAX_SKEW: Final[Instant] = 5 * MINUTE
MAX_SIGNED_HEADERS: Final = 50

_AUTHORIZATION: Final = re.compile(
    rf"{ALGORITHM} Credential=([\w+=,.@-]{{1,128}})/(\d{{8}})/([\w-]{{1,40}})/([\w-]{{1,40}})/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;_-]{1,2000}), ?Signature=([0-9a-f]{64})",
    re.ASCII,
)
_TIME: Final = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_SAFE: Final = "-_.~"


class SignatureInvalid(Unauthorized):
    """The request is not signed, or its signature does not match."""

    code = "SIGNATURE_INVALID"


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The parts of a request that a signature covers. Path and query string are as they were received."""

    method: str
    path: str
    query: str
    headers: Sequence[tuple[str, str]]  # Names in lower case.
    body: bytes

    def values(self, name: str) -> list[str]:
        return [value for given, value in self.headers if given == name]


@dataclass(frozen=True, slots=True)
class Signature:
    """The content of an Authorization header."""

    access_key_id: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    value: str

    @property
    def scope(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/aws4_request"


def parse_signature(request: SignedRequest, service: str) -> Signature:
    """Return the signature of a request, which is not verified yet. Raise if it does not cover all required parts."""
    authorizations = request.values("authorization")
    found = _AUTHORIZATION.fullmatch(authorizations[0]) if len(authorizations) == 1 else None
    if found is None:
        raise SignatureInvalid("The request has no Authorization header with an AWS4-HMAC-SHA256 signature.")
    names = tuple(found[5].split(";"))
    signature = Signature(found[1], found[2], found[3], found[4], names, found[6])
    if signature.service != service:
        raise SignatureInvalid(f"Credential should be scoped to correct service: {service}.")
    if list(names) != sorted(set(names)) or len(names) > MAX_SIGNED_HEADERS:
        raise SignatureInvalid("SignedHeaders must be sorted, without repetitions.")
    required = {"host", "x-amz-date"} | {name for name, _ in request.headers if name.startswith("x-amz-")}
    if missing := required.difference(names):
        raise SignatureInvalid(f"These headers must be signed: {', '.join(sorted(missing))}.")
    if len(request.values("host")) != 1 or len(request.values("x-amz-date")) != 1:
        raise SignatureInvalid("The headers Host and X-Amz-Date must occur once.")
    return signature


def verify_signature(request: SignedRequest, signature: Signature, secret: str, now: Instant) -> None:
    """Raise unless the request was signed with the secret, within the allowed time."""
    [time] = request.values("x-amz-date")
    expected = _signature(request, signature, secret, time)
    if not hmac.compare_digest(expected, signature.value):
        raise SignatureInvalid(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
            "Access Key and signing method, and that a proxy keeps the Host header."
        )
    if not _TIME.fullmatch(time) or time[:8] != signature.date or abs(_instant(time) - now) > MAX_SKEW:
        raise SignatureInvalid(f"Signature expired: {time[:20]} is more than 5 minutes from the time of the server.")


def _instant(time: str) -> Instant:
    try:
        return to_instant(datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC))
    except ValueError as error:
        raise SignatureInvalid("X-Amz-Date is not a valid time.") from error


def _signature(request: SignedRequest, signature: Signature, secret: str, time: str) -> str:
    canonical = hashlib.sha256(_canonical_request(request, signature.signed_headers).encode()).hexdigest()
    text = "\n".join([ALGORITHM, time, signature.scope, canonical])
    key = f"AWS4{secret}".encode()
    for part in signature.scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _canonical_request(request: SignedRequest, names: Sequence[str]) -> str:
    headers = [f"{name}:{','.join(' '.join(value.split()) for value in request.values(name))}\n" for name in names]
    # The hash is always computed: a request that declares an unsigned payload does not match.
    digest = hashlib.sha256(request.body).hexdigest()
    path = quote(request.path, safe="/" + _SAFE)
    return "\n".join([request.method, path, _canonical_query(request.query), "".join(headers), ";".join(names), digest])


def _canonical_query(query: str) -> str:
    pairs = [part.partition("=") for part in query.split("&") if part]
    encoded = sorted((quote(unquote(name), safe=_SAFE), quote(unquote(value), safe=_SAFE)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)
