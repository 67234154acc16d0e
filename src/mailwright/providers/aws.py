"""Sign requests to AWS, with credentials from the usual places (environment, profile or role)."""

import asyncio
import hmac
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlsplit

from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass

ALGORITHM = "AWS4-HMAC-SHA256"
# How long credentials are cached. botocore renews expiring credentials 15 minutes ahead, so a minute is short enough.
KEYS_KEPT: Instant = MINUTE
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class AwsKeys:
    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


class AwsKeysMissing(MailwrightError):
    """No AWS credentials were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile or a role."""


class AwsKeyChain:
    """Finds credentials in the environment or with botocore (profile, role), in a thread and only when needed."""

    def __init__(
        self, clock: Clock, find: Callable[[], Callable[[], AwsKeys]] | None = None, *, given: AwsKeys | None = None
    ) -> None:
        """Create the chain. `given` are the keys of the settings; keys in the environment have priority."""
        self._clock = clock
        self._find = find or (lambda: _usual_places(given))
        self._renew: Callable[[], AwsKeys] | None = None
        self._keys: AwsKeys | None = None
        self._renew_at: Instant = 0
        self._asking = asyncio.Lock()

    def at_hand(self) -> AwsKeys | None:
        """Return the cached credentials, or None if this request must renew them; other requests use the old ones."""
        is_time = self._clock.now() >= self._renew_at and not self._asking.locked()
        return None if is_time else self._keys

    async def keys(self) -> AwsKeys:
        """Return credentials, or raise `AwsKeysMissing`."""
        if (keys := self.at_hand()) is not None:
            return keys
        async with self._asking:
            if self._keys is None or self._clock.now() >= self._renew_at:
                self._keys = await self._ask()
                self._renew_at = self._clock.now() + KEYS_KEPT
            return self._keys

    def forget(self) -> None:
        """Drop rejected credentials. The next request loads them again, because they may have been corrected."""
        self._keys = self._renew = None

    async def _ask(self) -> AwsKeys:
        try:
            return await asyncio.to_thread(self._load_keys)
        except AwsKeysMissing:
            raise
        except Exception as error:
            if self._keys is not None:
                return self._keys  # The old credentials may still be valid for minutes.
            raise AwsKeysMissing(f"The AWS keys could not be read: {type(error).__name__}.") from error

    def _load_keys(self) -> AwsKeys:
        renew = self._renew  # This runs in a thread, and the attribute may be reset in the meantime.
        if renew is None:
            renew = self._renew = self._find()
        return renew()


class AwsSigner:
    """Signs requests to one service in one region with Signature Version 4, ten times as fast as botocore."""

    def __init__(self, service: str, region: str) -> None:
        self._service = service
        self._region = region
        self._derived_from: tuple[str, str] | None = None
        self._signing = hmac.new(b"", digestmod=sha256)
        self._written = (-1, "")

    def sign(
        self, keys: AwsKeys, method: str, url: str, *, headers: Mapping[str, str], body: bytes, now: Instant
    ) -> dict[str, str]:
        """Return the headers to send: the given ones and the signature. The URL must not have a query."""
        host, path = _place(url)
        moment = self._timestamp(now // 1000)
        signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
        signed["host"] = host
        signed["x-amz-date"] = moment
        if keys.token is not None:
            signed["x-amz-security-token"] = keys.token
        names = sorted(signed)
        lines = [f"{name}:{signed[name]}\n" for name in names]
        listed = ";".join(names)
        canonical = f"{method}\n{path}\n\n{''.join(lines)}\n{listed}\n{sha256(body).hexdigest()}"
        scope = f"{moment[:8]}/{self._region}/{self._service}/aws4_request"
        signing = self._key(keys.secret_key, moment[:8]).copy()
        signing.update(f"{ALGORITHM}\n{moment}\n{scope}\n{sha256(canonical.encode()).hexdigest()}".encode())
        del signed["host"]  # The HTTP client adds this header.
        signed["authorization"] = (
            f"{ALGORITHM} Credential={keys.access_key}/{scope}, SignedHeaders={listed}, Signature={signing.hexdigest()}"
        )
        return signed

    def _timestamp(self, second: int) -> str:
        """Return the timestamp of a request, cached for all requests of the same second."""
        if self._written[0] != second:
            self._written = second, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        return self._written[1]

    def _key(self, secret: str, day: str) -> hmac.HMAC:
        """Return the signing key. It is derived once a day, because the derivation takes most of the time."""
        if self._derived_from != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._signing = hmac.new(key, digestmod=sha256)
            self._derived_from = (secret, day)
        return self._signing


@lru_cache(maxsize=64)
def _place(url: str) -> tuple[str, str]:
    """Return the host and path in the form that the signature covers."""
    parts = urlsplit(url)
    return _host(parts.scheme, parts.hostname or "", parts.port), quote(parts.path or "/", safe="/~")


def _host(scheme: str, name: str, port: int | None) -> str:
    shown = f"[{name}]" if ":" in name else name
    return shown if port in (None, DEFAULT_PORTS.get(scheme)) else f"{shown}:{port}"


def _usual_places(given: AwsKeys | None) -> Callable[[], AwsKeys]:
    """Return a function that reads the current keys: environment, as botocore does first, settings, or botocore."""
    if _environment_has_keys():
        return _environment
    return _botocore() if given is None else lambda: given


def _environment_has_keys() -> bool:
    return bool(os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"))


def _environment() -> AwsKeys:
    return AwsKeys(
        os.environ["AWS_ACCESS_KEY_ID"],
        os.environ["AWS_SECRET_ACCESS_KEY"],
        os.environ.get("AWS_SESSION_TOKEN") or os.environ.get("AWS_SECURITY_TOKEN"),
    )


def _botocore() -> Callable[[], AwsKeys]:
    # Imported here because it is optional, and the import takes half a second.
    try:
        from botocore.session import Session  # noqa: PLC0415
    except ImportError as error:
        raise AwsKeysMissing(
            "No AWS credentials were found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or install "
            "`mailwright[aws]` to use a profile or a role."
        ) from error

    found: Any = Session().get_credentials()
    if found is None:
        raise AwsKeysMissing

    def current() -> AwsKeys:
        frozen = found.get_frozen_credentials()
        return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token)

    return current
