"""Copy images whose Notion addresses expire after an hour into the image store."""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from mailwright.content.image_files import ImagesUnavailable
from mailwright.content.image_rules import MAX_UPLOAD_BYTES, UnsupportedImage, extension_of
from mailwright.content.images import ImageStore
from mailwright.ops.logs import logger
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.sources.mailouts.notion.pages import NotionBlock, every
from mailwright.sources.mailouts.rendering.rich_text import ImageCopy

TIMEOUT_SECONDS = 30.0
CONCURRENCY = 4
MAX_IMAGES = 200
MAX_REDIRECTS = 3
REDIRECTS = (301, 302, 303, 307, 308)

# Query parameters of signed addresses, which expire.
_SIGNED = frozenset({"x-amz-expires", "x-amz-signature", "x-goog-expires", "x-goog-signature", "expirationtimestamp"})
_NOTION_HOSTS = re.compile(r"(?:[\w-]+\.)*notion-static\.com|(?:file|img)\.notion\.so|prod-files-secure\.s3\.[\w.-]+")

log = logger(__name__)


class ImageCopier:
    """Copies images into the image store, which serves them under a digest of their content."""

    def __init__(self, http: HttpClient, images: ImageStore, public_url: str) -> None:
        """`http` must refuse private addresses, because the author of a page chooses the URLs."""
        self._http = http
        self._images = images
        self._public_url = public_url

    async def copy(self, tenant_id: int, blocks: Sequence[NotionBlock]) -> Mapping[str, ImageCopy]:
        """Return the copy for each expiring address, without images that could not be fetched."""
        turns = asyncio.Semaphore(CONCURRENCY)

        async def fetch(url: str) -> bytes | None:
            async with turns:
                return await self._fetch(url)

        wanted = list(dict.fromkeys(expiring(blocks)))[:MAX_IMAGES]
        contents = await asyncio.gather(*(fetch(url) for url in wanted))
        copies: dict[str, ImageCopy] = {}
        for url, content in zip(wanted, contents, strict=True):  # One at a time, because two may be the same image.
            if content is not None and (copy := await self._store(tenant_id, url, content)) is not None:
                copies[url] = copy
        return copies

    async def _store(self, tenant_id: int, url: str, content: bytes) -> ImageCopy | None:
        name = f"notion-{hashlib.sha256(content).hexdigest()[:32]}.{extension_of(content)}"
        try:
            image = await self._images.put(tenant_id, name, content)
        except (UnsupportedImage, ImagesUnavailable) as error:
            _warn(url, str(error))
            return None
        return ImageCopy(self._images.url(image, self._public_url), image.width)

    async def _fetch(self, url: str) -> bytes | None:
        """Fetch an image. Redirects are followed here, so that each address is checked."""
        for _ in range(MAX_REDIRECTS + 1):
            if not is_web_address(url):
                _warn(url, "not a web address")
                return None
            match await self._http.request(
                "GET", url, timeout_seconds=TIMEOUT_SECONDS, max_response_bytes=MAX_UPLOAD_BYTES + 1
            ):
                case HttpResponse(status=200, body=body):
                    return _image(url, body)
                case HttpResponse(status=status, headers=headers) if status in REDIRECTS:
                    url = urljoin(url, headers.get("Location", ""))
                case HttpResponse(status=status):
                    _warn(url, f"the server returned {status}")
                    return None
                case Disconnect(cause=cause):
                    _warn(url, cause)
                    return None
        _warn(url, "too many redirects")
        return None


def _image(url: str, body: bytes) -> bytes | None:
    if len(body) > MAX_UPLOAD_BYTES:
        _warn(url, f"larger than {MAX_UPLOAD_BYTES // 1024**2} MB")
        return None
    try:
        extension_of(body)
    except UnsupportedImage:
        _warn(url, "not a PNG, JPEG, GIF or WebP image")
        return None
    return body


def expiring(blocks: Sequence[NotionBlock]) -> Iterator[str]:
    """Yield the addresses of images that will have expired when the email is read, in page order."""
    for block in every(blocks):
        if block.type == "image" and (url := expiring_url(block.content)) is not None:
            yield url
        icon = block.content.get("icon")
        if isinstance(icon, Mapping) and (url := icon_url(icon)) is not None:
            yield url
        yield from _emoji(block.content)


def expiring_url(content: Mapping[str, Any]) -> str | None:
    """Return the address of a file stored by Notion, or of an external file with a signed address."""
    for kind in ("file", "external"):
        inner = content.get(kind)
        url = inner.get("url") if isinstance(inner, Mapping) and content.get("type", kind) == kind else None
        if isinstance(url, str) and (kind == "file" or is_signed(url)):
            return url
    return None


def icon_url(icon: Mapping[str, Any]) -> str | None:
    """Return the address of an icon that is an image. All of them are copied, because a missing icon is conspicuous."""
    inner = icon.get(str(icon.get("type")))
    url = inner.get("url") if isinstance(inner, Mapping) else None
    return url if isinstance(url, str) else None


def is_signed(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    asked = {name.lower() for name, _ in parse_qsl(parts.query)}
    return bool(asked & _SIGNED) or _NOTION_HOSTS.fullmatch(parts.hostname or "") is not None


def is_web_address(url: str) -> bool:
    """Check the address without DNS. Some resolvers take `127.1` and `0x7f000001` for IP addresses."""
    try:
        parts = urlsplit(url)
        host, user = parts.hostname or "", parts.username
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not host or user is not None:
        return False
    try:
        ip_address(host)
    except ValueError:
        last = host.rstrip(".").rpartition(".")[2]
        return not (last.isdigit() or last.startswith("0x"))
    return True


def _emoji(content: Mapping[str, Any]) -> Iterator[str]:
    cells = content.get("cells")
    texts = [content.get("rich_text"), content.get("caption"), *(cells if isinstance(cells, list) else [])]
    for piece in (each for text in texts if isinstance(text, list) for each in text if isinstance(each, Mapping)):
        mention = piece.get("mention")
        about = mention.get("custom_emoji") if isinstance(mention, Mapping) else None
        if isinstance(about, Mapping) and isinstance(about.get("url"), str):
            yield about["url"]


def _warn(url: str, reason: str) -> None:
    # The query is not logged, because it may grant access.
    log.warning("image_not_copied", url=url.partition("?")[0][:200], reason=reason)
