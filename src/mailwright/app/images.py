"""Build the image store of an installation, and delete images that nothing uses."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import orjson
from sqlalchemy import and_, func, or_, select

from mailwright.app.s3_images import S3Images, s3_settings
from mailwright.app.turns import has_turn
from mailwright.content.image_files import ImageFiles, ImageFolder, StoredImages
from mailwright.content.images import Image, ImageStore
from mailwright.content.template_store import RESERVED_CHARACTER
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import HOUR, Clock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_text
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import Settings
from mailwright.outbox.campaign_uses import UNFINISHED
from mailwright.outbox.campaign_uses import find_uses as find_campaign_uses
from mailwright.outbox.ledger import DatabaseLedger
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import slices, template_drafts, templates, tenants

PURGE_SECONDS: Final = 600.0
_SHOWN_USES: Final = 5


@dataclass(frozen=True, slots=True)
class ImageUse:
    """Where an image is used: `kind` and `name` are shown to users."""

    kind: str
    name: str
    path: str  # the page of the dashboard

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip()


class ImageInUse(NotPossibleNow):
    """The image is used."""

    code = "IMAGE_IN_USE"

    def __init__(self, name: str, uses: Sequence[ImageUse]) -> None:
        shown, more = lazy_text(lambda: ", ".join(map(str, uses[:_SHOWN_USES]))), len(uses) - _SHOWN_USES
        if more > 0:
            text = lazy_gettext(
                "{name} is used by {uses} and {count} more. Remove it there first.", name=name, uses=shown, count=more
            )
        else:
            text = lazy_gettext("{name} is used by {uses}. Remove it there first.", name=name, uses=shown)
        super().__init__(text, field="name")
        self.uses = tuple(uses)


def make_images(settings: Settings, database: Database, clock: Clock) -> ImageStore:
    here, bucket = own_image_files(settings, database, clock), s3_settings(settings)
    return ImageStore(database, clock, here if bucket is None else S3Images(bucket, clock, here))


def own_image_files(settings: Settings, database: Database, clock: Clock) -> ImageFiles:
    """Return where Mailwright itself stores images: in a folder, or on PostgreSQL in the database."""
    folder = ImageFolder(settings.images)
    return folder if database.dialect == "sqlite" else StoredImages(database, clock, folder)


async def delete_image(database: Database, store: ImageStore, tenant_id: int, name: str, *, actor: str) -> Image:
    """Delete an image, or raise `ImageInUse` if the brand kit, a template, a draft or an unfinished campaign has it."""
    uses = await find_uses(database, tenant_id, await store.find(tenant_id, name))
    if uses:
        raise ImageInUse(name, uses)
    return await store.delete(tenant_id, name, actor=actor)


async def find_uses(database: Database, tenant_id: int, image: Image) -> list[ImageUse]:
    """Find everything that would show a broken image after its deletion, except the emails of `find_sent_uses`."""
    async with database.read() as tx:
        uses = await _brand(tx, tenant_id, image)
        uses += await _templates(tx, tenant_id, image)
        uses += await _drafts(tx, tenant_id, image)
        uses += await _campaigns(tx, tenant_id, image, UNFINISHED)
        uses += await _slices(tx, tenant_id, image)
    return uses


async def find_sent_uses(database: Database, tenant_id: int, image: Image) -> list[ImageUse]:
    """Find the campaigns whose sent emails show the image. They keep its file for 30 days after the deletion."""
    async with database.read() as tx:
        return await _campaigns(tx, tenant_id, image, (CampaignStatus.SENT, CampaignStatus.CANCELLED))


async def _brand(tx: Transaction, tenant_id: int, image: Image) -> list[ImageUse]:
    query = select(tenants.c.id).where(tenants.c.id == tenant_id, tenants.c.brand.contains(image.digest))
    return [ImageUse(lazy_gettext("the brand kit"), "", "/settings/brand") for _ in await tx.execute(query)]


async def _templates(tx: Transaction, tenant_id: int, image: Image) -> list[ImageUse]:
    """Find the templates whose newest version in some language contains the image."""
    t = templates.c
    own = and_(t.tenant_id == tenant_id, t.template_id.not_like(f"%{RESERVED_CHARACTER}%"), t.deleted_at.is_(None))
    newest = select(func.max(t.id)).where(own).group_by(t.template_id, t.locale)
    query = select(t.template_id).where(t.id.in_(newest), t.html.contains(image.digest)).distinct()
    rows = await tx.execute(query.order_by(t.template_id))
    return [ImageUse(lazy_gettext("the template"), row.template_id, f"/templates/{row.template_id}") for row in rows]


async def _drafts(tx: Transaction, tenant_id: int, image: Image) -> list[ImageUse]:
    """Find the templates whose unpublished draft of the composer contains the image."""
    t = template_drafts.c
    texts = (t.document.contains(image.digest), t.document.contains(image.name, autoescape=True))
    existing = select(templates.c.template_id).where(
        templates.c.tenant_id == tenant_id, templates.c.deleted_at.is_(None)
    )
    query = select(t.template_id).where(t.tenant_id == tenant_id, t.template_id.in_(existing), or_(*texts)).distinct()
    rows = await tx.execute(query.order_by(t.template_id))
    return [
        ImageUse(lazy_gettext("the draft of"), row.template_id, f"/templates/{row.template_id}/compose") for row in rows
    ]


async def _campaigns(
    tx: Transaction, tenant_id: int, image: Image, statuses: Collection[CampaignStatus]
) -> list[ImageUse]:
    """Find the campaigns whose own content or template, in any version, contains the image."""
    query = select(templates.c.template_id).where(
        templates.c.tenant_id == tenant_id, templates.c.html.contains(image.digest)
    )
    containing = {row.template_id for row in await tx.execute(query.distinct())}

    def uses(definition: Mapping[str, Any]) -> bool:
        if CampaignStatus.DRAFT not in statuses and not definition["started"]:
            return False  # A discarded draft was never sent.
        written = orjson.dumps(definition).decode()
        template_id = (definition.get("content") or {}).get("templateId")
        return template_id in containing or image.digest in written or image.name in written

    found = await find_campaign_uses(tx, tenant_id, uses, statuses)
    return [ImageUse(lazy_gettext("the campaign"), each.name, f"/campaigns/{each.campaign_id}") for each in found]


async def _slices(tx: Transaction, tenant_id: int, image: Image) -> list[ImageUse]:
    texts = (slices.c.body_md.contains(image.digest), slices.c.body_md.contains(image.name, autoescape=True))
    query = select(slices.c.article_key).where(slices.c.tenant_id == tenant_id, or_(*texts)).distinct()
    rows = await tx.execute(query.order_by(slices.c.article_key))
    return [ImageUse(lazy_gettext("the article"), row.article_key, f"/articles/{row.article_key}") for row in rows]


async def run_image_purge(images: ImageStore, database: Database, clock: Clock) -> None:
    """Delete the files of images that were deleted 30 days ago, until cancelled."""
    ledger = DatabaseLedger(database, clock)

    async def purge() -> None:
        if await has_turn("image-purge", HOUR, ledger, clock):
            await images.purge()

    await run_periodically("image_purge", purge, seconds=PURGE_SECONDS)
