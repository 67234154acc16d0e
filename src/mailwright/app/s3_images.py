"""Store images in an S3-compatible bucket: Amazon S3, MinIO, Cloudflare R2, Backblaze B2 and others."""

import re
from collections.abc import Callable
from dataclasses import field
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from mailwright.content.image_files import ImageFiles, ImagesUnavailable
from mailwright.content.image_rules import MAX_UPLOAD_BYTES
from mailwright.domain.clock import Clock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.ops.settings import Settings
from mailwright.providers.aws import AwsKeyChain, AwsKeys, AwsKeysMissing, AwsSigner
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse

TIMEOUT_SECONDS: Final = 20.0
PROBE: Final = "mailwright-check.txt"

_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_ERROR_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9.]{1,60})</Code>")
# A bucket whose content may not be listed reports missing files like this.
_MISSING: Final = frozenset({"NoSuchKey", "AccessDenied"})


@dataclass(frozen=True, slots=True)
class S3Settings:
    endpoint: str
    bucket: str
    region: str
    public_url: str | None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)


def s3_settings(settings: Settings) -> S3Settings | None:
    """Return the settings of the bucket, or None if images are stored in a folder."""
    bucket = settings.images_s3_bucket
    given = (settings.images_s3_endpoint, settings.images_s3_access_key, settings.images_s3_secret_key)
    if bucket is None:
        if any(given) or settings.images_s3_public_url:
            raise ConfigurationInvalid("MAILWRIGHT_IMAGES_S3_BUCKET: is missing, but other S3 settings are set")
        return None
    endpoint = (settings.images_s3_endpoint or f"https://s3.{settings.images_s3_region}.amazonaws.com").rstrip("/")
    public_url = settings.images_s3_public_url.rstrip("/") if settings.images_s3_public_url else None
    problems = []
    if not _BUCKET.fullmatch(bucket):
        problems.append("MAILWRIGHT_IMAGES_S3_BUCKET: must be the name of a bucket, for example acme-images")
    if not _is_url(endpoint) or urlsplit(endpoint).path:
        problems.append(
            "MAILWRIGHT_IMAGES_S3_ENDPOINT: must be a URL without a path, for example https://s3.example.com"
        )
    if public_url is not None and not _is_url(public_url):
        problems.append("MAILWRIGHT_IMAGES_S3_PUBLIC_URL: must be a URL, for example https://images.example.com")
    if (settings.images_s3_access_key is None) != (settings.images_s3_secret_key is None):
        problems.append("MAILWRIGHT_IMAGES_S3_ACCESS_KEY and MAILWRIGHT_IMAGES_S3_SECRET_KEY: set both, or none")
    if problems:
        raise ConfigurationInvalid(*problems)
    secret = settings.images_s3_secret_key
    return S3Settings(
        endpoint,
        bucket,
        settings.images_s3_region,
        public_url,
        settings.images_s3_access_key,
        None if secret is None else secret.get_secret_value(),
    )


class S3Images:
    """The files in a bucket. Those from before the bucket was set up are served from their `earlier` place."""

    def __init__(self, settings: S3Settings, clock: Clock, earlier: ImageFiles) -> None:
        self._settings = settings
        self._clock = clock
        self._earlier = earlier
        self._http = HttpClient(connections=8)
        self._signer = AwsSigner("s3", settings.region)
        self._keys = AwsKeyChain(clock, _given_keys(settings))

    @property
    def base_url(self) -> str | None:
        return self._settings.public_url

    async def write(self, name: str, content: bytes, media_type: str) -> None:
        headers = {"Content-Type": media_type, "Cache-Control": "public, max-age=31536000, immutable"}
        response = await self._request("PUT", name, content, headers)
        if response.status not in (200, 201, 204):
            raise self._unavailable(_reason(response))

    async def read(self, name: str) -> bytes | None:
        if (kept := await self._earlier.read(name)) is not None:
            return kept
        response = await self._request("GET", name)
        if response.status == 200:
            return response.body
        if _error_code(response) in _MISSING:
            return None
        raise self._unavailable(_reason(response))

    async def exists(self, name: str) -> bool:
        response = await self._request("HEAD", name)
        if response.status in (200, 403, 404):
            return response.status == 200
        raise self._unavailable(_reason(response))

    async def remove(self, name: str) -> None:
        response = await self._request("DELETE", name)
        if response.status not in (200, 204, 404):
            raise self._unavailable(_reason(response))
        await self._earlier.remove(name)

    async def check(self) -> None:
        """Write, read and delete a small file, and load it like a recipient. Raises `ImagesUnavailable`."""
        content = b"Mailwright checks that it can store images here.\n"
        await self.write(PROBE, content, "text/plain")
        try:
            if await self.read(PROBE) != content:
                raise self._unavailable("the file that was written cannot be read")
            if self._settings.public_url is not None:
                await self._check_public_url(content)
        finally:
            await self.remove(PROBE)

    async def close(self) -> None:
        await self._http.close()

    async def _check_public_url(self, content: bytes) -> None:
        url = f"{self._settings.public_url}/{PROBE}"
        match await self._http.request("GET", url, timeout_seconds=TIMEOUT_SECONDS):
            case HttpResponse(status=200, body=body) if body == content:
                return
            case HttpResponse(status=200):
                raise ImagesUnavailable("{url} is another file than the one in the bucket.", url=url)
            case HttpResponse(status=status):
                raise ImagesUnavailable("Recipients cannot load {url}: status {status}.", url=url, status=status)
            case Disconnect(cause=cause):
                raise ImagesUnavailable("Recipients cannot load {url}: {cause}.", url=url, cause=cause)

    async def _request(
        self, method: str, name: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> HttpResponse:
        url = f"{self._settings.endpoint}/{self._settings.bucket}/{name}"
        try:
            keys = await self._keys.keys()
        except AwsKeysMissing as error:
            raise self._unavailable(str(error)) from error
        signed = self._signer.sign(
            keys,
            method,
            url,
            headers={**(headers or {}), "X-Amz-Content-Sha256": sha256(body).hexdigest()},
            body=body,
            now=self._clock.now(),
        )
        response = await self._http.request(
            method,
            url,
            headers=signed,
            body=body,
            timeout_seconds=TIMEOUT_SECONDS,
            max_response_bytes=MAX_UPLOAD_BYTES,
        )
        if isinstance(response, Disconnect):
            raise self._unavailable(response.cause)
        if response.status in (401, 403):
            self._keys.forget()
        return response

    def _unavailable(self, reason: str) -> ImagesUnavailable:
        host = urlsplit(self._settings.endpoint).netloc
        return ImagesUnavailable(
            "The image storage is unavailable (bucket {bucket} at {host}): {reason}.",
            bucket=self._settings.bucket,
            host=host,
            reason=reason.rstrip("."),
        )


def _given_keys(settings: S3Settings) -> Callable[[], Callable[[], AwsKeys]] | None:
    access, secret = settings.access_key, settings.secret_key
    if access is None or secret is None:
        return None
    keys = AwsKeys(access, secret)
    return lambda: lambda: keys


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and parts.username is None
    except ValueError:
        return False
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(" \"'<>\\?#")
    return parts.scheme in ("http", "https") and has_host and is_plain


def _error_code(response: HttpResponse) -> str | None:
    found = _ERROR_CODE.search(response.body[:4_096])
    return found[1].decode() if found else None


def _reason(response: HttpResponse) -> str:
    code = _error_code(response)
    return f"it responded with status {response.status}{f' ({code})' if code else ''}"
