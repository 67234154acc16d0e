"""Pictures: what Notion shows for an hour is copied to where readers can still see it next year."""

import asyncio
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

from mailwright.content.images import MAX_BYTES, ImageStore, UnsupportedImage, extension_of
from mailwright.ops.logs import logger
from mailwright.providers.http import Disconnect, HttpClient, HttpResponse
from mailwright.sources.mailouts.notion.pages import NotionBlock, every
from mailwright.sources.mailouts.rendering.image_width import width_of
from mailwright.sources.mailouts.rendering.rich_text import ImageCopy

TIMEOUT_SECONDS = 30.0
AT_ONCE = 4
MAX_IMAGES = 200
MAX_REDIRECTS = 3
REDIRECTS = (301, 302, 303, 307, 308)

# Signs of an address that was signed for a while, wherever it was pasted from.
_SIGNED = frozenset({"x-amz-expires", "x-amz-signature", "x-goog-expires", "x-goog-signature", "expirationtimestamp"})
_NOTIONS_OWN = re.compile(r"(?:[\w-]+\.)*notion-static\.com|(?:file|img)\.notion\.so|prod-files-secure\.s3\.[\w.-]+")

log = logger(__name__)


class ImageCopier:
    """Copies pictures into the store of images, from where they are served under their content's name."""

    def __init__(self, http: HttpClient, images: ImageStore, public_url: str) -> None:
        """`http` must refuse addresses of our own network: whoever writes a page chooses what is fetched."""
        self._http = http
        self._images = images
        self._public_url = public_url

    async def copied(self, tenant_id: int, blocks: Sequence[NotionBlock]) -> Mapping[str, ImageCopy]:
        """From each address that will die to its copy. What cannot be had is not in it; its words are shown."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def fetch(url: str) -> bytes | None:
            async with turns:
                return await self._fetched(url)

        wanted = list(dict.fromkeys(expiring(blocks)))[:MAX_IMAGES]
        contents = await asyncio.gather(*(fetch(url) for url in wanted))
        copies: dict[str, ImageCopy] = {}
        for url, content in zip(wanted, contents, strict=True):  # one by one: two may be the same picture
            if content is not None:
                copies[url] = await self._kept(tenant_id, content)
        return copies

    async def _kept(self, tenant_id: int, content: bytes) -> ImageCopy:
        name = f"notion-{hashlib.sha256(content).hexdigest()[:32]}.{extension_of(content)}"
        image = await self._images.put(tenant_id, name, content)
        return ImageCopy(image.url(self._public_url), width_of(content))

    async def _fetched(self, url: str) -> bytes | None:
        """Follows redirects itself: each step is judged like the first."""
        for _ in range(MAX_REDIRECTS + 1):
            if not is_web_address(url):
                _warn(url, "it is no web address")
                return None
            match await self._http.request(
                "GET", url, timeout_seconds=TIMEOUT_SECONDS, max_response_bytes=MAX_BYTES + 1
            ):
                case HttpResponse(status=200, body=body):
                    return _image(url, body)
                case HttpResponse(status=status, headers=headers) if status in REDIRECTS:
                    url = urljoin(url, headers.get("Location", ""))
                case HttpResponse(status=status):
                    _warn(url, f"the server answers {status}")
                    return None
                case Disconnect(cause=cause):
                    _warn(url, cause)
                    return None
        _warn(url, "it leads from one address to the next without end")
        return None


def _image(url: str, body: bytes) -> bytes | None:
    if len(body) > MAX_BYTES:
        _warn(url, f"it has more than {MAX_BYTES // 1024**2} MB")
        return None
    try:
        extension_of(body)
    except UnsupportedImage:
        _warn(url, "it is no PNG, JPEG, GIF or WebP image")
        return None
    return body


def expiring(blocks: Sequence[NotionBlock]) -> Iterator[str]:
    """Addresses of pictures that will not be there when the mail is read, in the order of the page."""
    for block in every(blocks):
        if block.type == "image" and (url := dying_url(block.content)) is not None:
            yield url
        icon = block.content.get("icon")
        if isinstance(icon, Mapping) and (url := icon_url(icon)) is not None:
            yield url
        yield from _emoji(block.content)


def dying_url(content: Mapping[str, Any]) -> str | None:
    """Of a file that Notion keeps, or of one elsewhere whose address was signed for a while."""
    for kind in ("file", "external"):
        inner = content.get(kind)
        url = inner.get("url") if isinstance(inner, Mapping) and content.get("type", kind) == kind else None
        if isinstance(url, str) and (kind == "file" or is_signed(url)):
            return url
    return None


def icon_url(icon: Mapping[str, Any]) -> str | None:
    """Of an icon that is a picture. All are copied: one that is missing would be all that is seen of it."""
    inner = icon.get(str(icon.get("type")))
    url = inner.get("url") if isinstance(inner, Mapping) else None
    return url if isinstance(url, str) else None


def is_signed(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    asked = {name.lower() for name, _ in parse_qsl(parts.query)}
    return bool(asked & _SIGNED) or _NOTIONS_OWN.fullmatch(parts.hostname or "") is not None


def is_web_address(url: str) -> bool:
    """What needs no look at the network. `127.1` and `0x7f000001` are addresses to some resolvers."""
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
    # Without the query: it is what lets people in.
    log.warning("picture_not_copied", url=url.partition("?")[0][:200], reason=reason)
