"""Uploaded images for emails, stored under a hash of their content, so that an image never changes after sending."""

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotDurable
from mailwright.storage.database import Database
from mailwright.storage.tables import images

MAX_BYTES = 5 * 1024 * 1024

# The media type is detected by the file signature. SVG is not supported, because it can contain scripts and few email
# programs show it.
MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}
FILE_NAME = re.compile(r"([0-9a-f]{64})\.(png|jpg|gif|webp)", re.ASCII)


class UnsupportedImage(InvalidInput):
    """The file is not a PNG, JPEG, GIF or WebP image."""

    code = "NOT_AN_IMAGE"


@dataclass(frozen=True, slots=True)
class Image:
    """An image. Authors use its `name`; its URL contains a hash of the content, so that a new image has a new URL."""

    name: str
    digest: str
    extension: str
    size_bytes: int
    created_at: Instant

    @property
    def file_name(self) -> str:
        return f"{self.digest}.{self.extension}"

    def url(self, public_url: str) -> str:
        return f"{public_url}/images/{self.file_name}"


class ImageStore:
    def __init__(self, database: Database, clock: Clock, folder: Path) -> None:
        self._database = database
        self._clock = clock
        self._folder = folder

    async def put(self, tenant_id: int, name: str, content: bytes) -> Image:
        """Store an image under a name. Existing template versions keep the image that had this name before."""
        _check_name(name)
        if len(content) > MAX_BYTES:
            raise InvalidInput(f"An image can have at most {MAX_BYTES // 1024**2} MB.", field="body")
        image = Image(name, hashlib.sha256(content).hexdigest(), extension_of(content), len(content), self._clock.now())
        try:
            await asyncio.to_thread(_write_file, self._folder / image.file_name, content)
        except OSError as error:
            raise NotDurable(f"The image cannot be stored in {self._folder}: {error.strerror}.") from error
        values = {column: getattr(image, column) for column in _COLUMNS}
        try:
            await self._name(tenant_id, values)
        except IntegrityError:  # Another upload used the name at the same time. Retry, so that this one is the newest.
            await self._name(tenant_id, values)
        return image

    async def _name(self, tenant_id: int, values: Mapping[str, Any]) -> None:
        """Insert a new row instead of updating, so that the newest image has the highest ID."""
        same = (images.c.tenant_id == tenant_id, images.c.name == values["name"])
        async with self._database.write() as tx:
            await tx.execute(delete(images).where(*same))
            await tx.execute(insert(images).values(tenant_id=tenant_id, **values))

    async def list_page(self, tenant_id: int, *, limit: int, before: int = 2**63 - 1) -> list[tuple[int, Image]]:
        """Return a page of images, newest first, each with its ID for paging."""
        query = select(images).where(images.c.tenant_id == tenant_id, images.c.id < before)
        async with self._database.read() as tx:
            rows = await tx.execute(query.order_by(images.c.id.desc()).limit(limit))
        return [(row.id, _image(row)) for row in rows]

    async def named(self, tenant_id: int, names: Collection[str]) -> dict[str, Image]:
        """Return the images that exist under these names."""
        if not names:
            return {}
        query = select(images).where(images.c.tenant_id == tenant_id, images.c.name.in_(sorted(names)))
        async with self._database.read() as tx:
            return {row.name: _image(row) for row in await tx.execute(query)}

    async def read(self, file_name: str) -> bytes | None:
        """Return the content of a stored image, or None."""
        if not FILE_NAME.fullmatch(file_name):
            return None
        try:
            return await asyncio.to_thread((self._folder / file_name).read_bytes)
        except FileNotFoundError:
            return None


def extension_of(content: bytes) -> str:
    for pattern, extension in _BEGINNINGS:
        if pattern.match(content):
            return extension
    raise UnsupportedImage(field="body")


_COLUMNS = ("name", "digest", "extension", "size_bytes", "created_at")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\.(?:png|jpe?g|gif|webp)", re.ASCII)
_BEGINNINGS = (
    (re.compile(rb"\x89PNG\r\n\x1a\n.{4}IHDR", re.DOTALL), "png"),
    (re.compile(rb"\xff\xd8\xff"), "jpg"),
    (re.compile(rb"GIF8[79]a"), "gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "webp"),
)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "An image name must end in .png, .jpg, .gif or .webp, and may contain letters, digits, dots, - and _.",
            field="name",
        )


def _write_file(file: Path, content: bytes) -> None:
    """Write the file atomically: write and flush a temporary file, then rename it."""
    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with unfinished.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)


def _image(row: Any) -> Image:
    return Image(**{column: row._mapping[column] for column in _COLUMNS})
