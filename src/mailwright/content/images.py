"""Uploaded images for emails, stored under a hash of their content, so that an image never changes after sending."""

import hashlib
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.content.image_files import ImageFiles, ImagesUnavailable
from mailwright.content.image_processing import process_image
from mailwright.content.image_rules import MEDIA_TYPES, extension_of
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotDurable, NotFound
from mailwright.domain.keys import write_in_ascii
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.printable import is_printable
from mailwright.ops.logs import logger
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import images

log = logger(__name__)

MAX_ALT: Final = 500
# A deleted image can be restored for this time; until then its file stays available to recipients.
KEPT_AFTER_DELETION: Final[Instant] = 30 * DAY
FILE_NAME: Final = re.compile(r"([0-9a-f]{64})\.(png|jpg|gif|webp)", re.ASCII)

_NEWEST: Final = 2**63 - 1
_PURGED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class Image:
    """An image. Authors use its `name`; its URL contains a hash of the content, so that a new image has a new URL."""

    name: str
    digest: str
    extension: str
    size_bytes: int
    width: int
    height: int
    alt: str
    created_at: Instant

    @property
    def file_name(self) -> str:
        return f"{self.digest}.{self.extension}"


class ImageStore:
    def __init__(self, database: Database, clock: Clock, files: ImageFiles) -> None:
        self._database = database
        self._clock = clock
        self._files = files

    def url(self, image: Image, public_url: str) -> str:
        """Return the URL that recipients load."""
        return f"{self.base_urls(public_url)[0]}/{image.file_name}"

    def base_urls(self, public_url: str) -> tuple[str, ...]:
        """Return the URLs below which recipients load images."""
        own = (f"{public_url}/images",)
        return own if self._files.base_url is None else (self._files.base_url, *own)

    async def put(self, tenant_id: int, name: str, content: bytes, *, alt: str = "", actor: str | None = None) -> Image:
        """Store an image under a name. Existing template versions keep the image that had this name before."""
        extension_of(content)  # Report a problem of the content before one of the name, for example photo.svg.
        _check_name(name)
        image, file = await self._stored(name, content, alt)
        try:
            await self._insert(tenant_id, image, actor, replaces=True)
        except IntegrityError:  # Another upload used the name at the same time. Retry, so that this one is the newest.
            await self._insert(tenant_id, image, actor, replaces=True)
        await self._require_file(image, file)
        return image

    async def add(self, tenant_id: int, name: str, content: bytes, *, alt: str = "", actor: str | None = None) -> Image:
        """Store an image under a new name similar to the given one. If the same image exists, return it."""
        image, file = await self._stored("", content, alt)
        for _ in range(3):
            existing = await self._find_same(tenant_id, image)
            if existing is not None:
                return existing
            named = replace(image, name=await self._free_name(tenant_id, name, image.extension))
            with suppress(IntegrityError):  # Another upload took the name at the same time.
                await self._insert(tenant_id, named, actor, replaces=False)
                await self._require_file(named, file)
                return named
        raise NotDurable("Another upload uses the same name. Upload the image again.")

    async def change_alt(self, tenant_id: int, name: str, alt: str, *, actor: str | None = None) -> Image:
        """Change the description that templates suggest for an image."""
        changed = update(images).where(_named(tenant_id, name)).values(alt=_checked_alt(alt)).returning(images)
        async with self._database.write() as tx:
            found = _only(await tx.execute(changed), name)
            await self._record(tx, actor, "image.change", tenant_id=tenant_id, name=name, alt=found.alt)
        return found

    async def delete(self, tenant_id: int, name: str, *, actor: str | None = None) -> Image:
        """Remove an image from the library. It can be restored for 30 days, and sent emails show it until then."""
        values = {"deleted_at": self._clock.now()}
        async with self._database.write() as tx:
            rows = await tx.execute(update(images).where(_named(tenant_id, name)).values(values).returning(images))
            found = _only(rows, name)
            await self._record(tx, actor, "image.delete", tenant_id=tenant_id, name=name)
        return found

    async def restore(self, tenant_id: int, name: str, *, actor: str | None = None) -> Image:
        deleted = and_(images.c.tenant_id == tenant_id, images.c.name == name, images.c.deleted_at.is_not(None))
        async with self._database.write() as tx:
            found = _only(
                await tx.execute(update(images).where(deleted).values(deleted_at=None).returning(images)), name
            )
            await self._record(tx, actor, "image.restore", tenant_id=tenant_id, name=name)
        return found

    async def purge(self) -> int:
        """Delete the files of images that were deleted 30 days ago, unless another image has the same content.

        Return the number of deleted images. A file that cannot be deleted now does not stop the others.
        """
        expired = images.c.deleted_at < self._clock.now() - KEPT_AFTER_DELETION
        async with self._database.read() as tx:
            rows = await tx.execute(select(images).where(expired).order_by(images.c.id).limit(_PURGED_AT_ONCE))
        purged = 0
        for row in rows:
            try:
                purged += await _purge_one(self._database, self._files, row, expired)
            except ImagesUnavailable as error:
                log.warning("image_not_purged", file=_image(row).file_name, reason=str(error))
        return purged

    async def find(self, tenant_id: int, name: str) -> Image:
        async with self._database.read() as tx:
            return _only(await tx.execute(select(images).where(_named(tenant_id, name))), name)

    async def list_page(
        self, tenant_id: int, *, limit: int, before: int = _NEWEST, search: str = ""
    ) -> list[tuple[int, Image]]:
        """Return a page of images, newest first, each with its ID for paging. `search` finds names and alt texts."""
        conditions = [images.c.tenant_id == tenant_id, images.c.deleted_at.is_(None), images.c.id < before]
        for word in search.lower().split()[:8]:
            texts = (func.lower(images.c.name), func.lower(images.c.alt))
            conditions.append(or_(*(text.contains(word, autoescape=True) for text in texts)))
        async with self._database.read() as tx:
            rows = await tx.execute(select(images).where(*conditions).order_by(images.c.id.desc()).limit(limit))
        return [(row.id, _image(row)) for row in rows]

    async def named(self, tenant_id: int, names: Collection[str]) -> dict[str, Image]:
        """Return the images that exist under these names."""
        if not names:
            return {}
        query = select(images).where(
            images.c.tenant_id == tenant_id, images.c.deleted_at.is_(None), images.c.name.in_(sorted(names))
        )
        async with self._database.read() as tx:
            return {row.name: _image(row) for row in await tx.execute(query)}

    async def read(self, file_name: str) -> bytes | None:
        """Return the content of a stored image, or None."""
        return await self._files.read(file_name) if FILE_NAME.fullmatch(file_name) else None

    async def close(self) -> None:
        await self._files.close()

    async def _stored(self, name: str, content: bytes, alt: str) -> tuple[Image, bytes]:
        """Process the upload and store its file. It is in no library yet, so a failure leaves nothing visible."""
        alt = _checked_alt(alt)
        processed = await process_image(content)
        digest = hashlib.sha256(processed.content).hexdigest()
        image = Image(
            name=name,
            digest=digest,
            extension=processed.extension,
            size_bytes=len(processed.content),
            width=processed.width,
            height=processed.height,
            alt=alt,
            created_at=self._clock.now(),
        )
        await self._files.write(image.file_name, processed.content, MEDIA_TYPES[image.extension])
        return image, processed.content

    async def _require_file(self, image: Image, content: bytes) -> None:
        """Store the file again if a purge deleted it while the image was being named."""
        with suppress(ImagesUnavailable):  # The image is stored, and the purge is very unlikely.
            if not await self._files.exists(image.file_name):
                await self._files.write(image.file_name, content, MEDIA_TYPES[image.extension])

    async def _insert(self, tenant_id: int, image: Image, actor: str | None, *, replaces: bool) -> None:
        """Insert a new row instead of updating, so that the newest image has the highest ID."""
        values = {column: getattr(image, column) for column in _COLUMNS}
        async with self._database.write() as tx:
            if replaces:
                same = (images.c.tenant_id == tenant_id, images.c.name == image.name)
                await tx.execute(delete(images).where(*same))
            await tx.execute(insert(images).values(tenant_id=tenant_id, **values))
            await self._record(tx, actor, "image.upload", tenant_id=tenant_id, name=image.name, file=image.file_name)

    async def _find_same(self, tenant_id: int, image: Image) -> Image | None:
        same = and_(images.c.tenant_id == tenant_id, images.c.digest == image.digest, images.c.deleted_at.is_(None))
        async with self._database.read() as tx:
            rows = await tx.execute(select(images).where(same).limit(1))
        return _image(rows[0]) if rows else None

    async def _free_name(self, tenant_id: int, name: str, extension: str) -> str:
        stem = _UNUSUAL.sub("-", write_in_ascii(name.rpartition(".")[0] or name)).strip("-._")[:80] or "image"
        wanted = [f"{stem}.{extension}", *(f"{stem}-{number}.{extension}" for number in range(2, 200))]
        query = select(images.c.name).where(images.c.tenant_id == tenant_id, images.c.name.in_(wanted))
        async with self._database.read() as tx:
            taken = {row.name for row in await tx.execute(query)}
        return next((each for each in wanted if each not in taken), f"{stem}-{self._clock.now()}.{extension}")

    async def _record(
        self, tx: Transaction, actor: str | None, action: str, *, tenant_id: int, name: str, **detail: str
    ) -> None:
        if actor is not None:
            entry = {"actor": actor, "action": action, "subject": name}
            await audit_log.record(tx, self._clock.now(), **entry, tenant_id=tenant_id, detail=detail)


_COLUMNS: Final = ("name", "digest", "extension", "size_bytes", "width", "height", "alt", "created_at")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\.(?:png|jpe?g|gif|webp)", re.ASCII)
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]+", re.ASCII)


async def _purge_one(database: Database, files: ImageFiles, row: Any, expired: ColumnElement[bool]) -> bool:
    """Delete one image. If its file cannot be deleted, its row comes back, so that the next purge tries again."""
    async with database.write() as tx:
        mine = delete(images).where(images.c.id == row.id, expired).returning(images.c.id)
        if not await tx.execute(mine):
            return False  # Somebody has restored it.
        others = await tx.execute(select(images.c.id).where(images.c.digest == row.digest).limit(1))
    if others:
        return True
    try:
        await files.remove(_image(row).file_name)
    except ImagesUnavailable:
        with suppress(IntegrityError):  # Another image has the name now.
            async with database.write() as tx:
                await tx.execute(insert(images).values(dict(row._mapping)))
        raise
    return True


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "An image name must end in .png, .jpg, .gif or .webp, and may contain letters, digits, dots, - and _.",
            field="name",
        )


def _checked_alt(alt: str) -> str:
    text = " ".join(alt.split())
    if len(text) > MAX_ALT or not is_printable(text):
        raise InvalidInput("The alt text must be text of at most {max_alt} characters.", field="alt", max_alt=MAX_ALT)
    return text


def _named(tenant_id: int, name: str) -> ColumnElement[bool]:
    return and_(images.c.tenant_id == tenant_id, images.c.name == name, images.c.deleted_at.is_(None))


def _only(rows: Sequence[Any], name: str) -> Image:
    if not rows:
        raise NotFound("There is no image {name}.", field="name", name=name[:100])
    return _image(rows[0])


def _image(row: Any) -> Image:
    return Image(**{column: row._mapping[column] for column in _COLUMNS})
