"""Archive, delete and restore templates. Messages that were accepted with a version still use it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, select, update

from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import RESERVED_CHARACTER, latest_by_locale
from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox import audit_log
from mailwright.outbox.campaign_uses import CampaignUse, find_uses
from mailwright.outbox.sequence_uses import TEMPLATES, SequenceUse, find_sequence_uses
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import template_drafts, templates

# Returns the notification types of a tenant that use a template.
FindNotificationTypes = Callable[[int, str], Awaitable[Sequence[str]]]


class TemplateInUse(NotPossibleNow):
    """An unfinished campaign, a sequence or a notification type uses this template."""

    code = "TEMPLATE_IN_USE"

    def __init__(
        self, template_id: str, uses: tuple[CampaignUse | SequenceUse, ...], notification_types: Sequence[str] = ()
    ) -> None:
        if uses:
            reason, remedy = uses[0].sentence, uses[0].remedy
        else:
            reason = lazy_gettext("notifications of the type {type} use it", type=notification_types[0])
            remedy = lazy_gettext("Give the type another template first.")
        super().__init__(
            "The template {template_id} cannot be deleted because {reason}. {remedy}",
            template_id=template_id,
            reason=reason,
            remedy=remedy,
        )
        self.uses = uses


class TemplateLocked(NotPossibleNow):
    """A developer locked blocks of this template, so only administrators can delete it."""

    def __init__(self, template_id: str) -> None:
        super().__init__(
            "The template {template_id} has locked blocks. Only an administrator can delete it.",
            template_id=template_id,
        )


class TemplateRemoval:
    def __init__(self, database: Database, clock: Clock, find_notification_types: FindNotificationTypes) -> None:
        self._database = database
        self._clock = clock
        self._find_notification_types = find_notification_types

    async def archive(self, tenant_id: int, template_id: str, *, actor: str) -> None:
        """Hide a template from lists. Requests that name its ID still work; a new version brings it back."""
        await self._set(tenant_id, template_id, actor, "archive", archived_at=self._clock.now())

    async def delete(self, tenant_id: int, template_id: str, *, actor: str, keeps_locked: bool = False) -> None:
        """Delete a template with all its versions, or raise `TemplateInUse`.

        If `keeps_locked` is true and the template has locked blocks, raise `TemplateLocked`.
        """
        if types := await self._find_notification_types(tenant_id, template_id):
            raise TemplateInUse(template_id, (), types)
        now = self._clock.now()
        await self._set(tenant_id, template_id, actor, "delete", keeps_locked=keeps_locked, deleted_at=now)

    async def restore(self, tenant_id: int, template_id: str, *, actor: str) -> None:
        """Bring back an archived or deleted template."""
        async with self._database.write() as tx:
            versions = await _lock_versions(tx, _named(tenant_id, template_id))
            current = [row for row in versions if row.deleted_at is None]
            if current and all(row.archived_at is None for row in current):
                if len(current) == len(versions):
                    return
                raise NotPossibleNow(
                    "Another template has the ID {template_id} now. Delete it first.", template_id=template_id
                )
            restored = templates.c.id.in_([row.id for row in current or versions])
            await tx.execute(update(templates).where(restored).values(archived_at=None, deleted_at=None))
            await self._record(tx, tenant_id, template_id, actor, "restore")

    async def _set(
        self, tenant_id: int, template_id: str, actor: str, action: str, *, keeps_locked: bool = False, **changes: Any
    ) -> None:
        matching = _named(tenant_id, template_id) & templates.c.deleted_at.is_(None)
        async with self._database.write() as tx:
            await _lock_versions(tx, matching)
            if keeps_locked and await _has_locks(tx, tenant_id, template_id):
                raise TemplateLocked(template_id)
            if action == "delete":
                uses: tuple[CampaignUse | SequenceUse, ...] = await find_uses(
                    tx, tenant_id, lambda definition: definition.get("content", {}).get("templateId") == template_id
                )
                uses = (*uses, *await find_sequence_uses(tx, tenant_id, TEMPLATES, template_id))
                if uses:
                    raise TemplateInUse(template_id, uses)
                await _end_drafts(tx, tenant_id, template_id)
            await tx.execute(update(templates).where(matching).values(**changes))
            await self._record(tx, tenant_id, template_id, actor, action)

    async def _record(self, tx: Transaction, tenant_id: int, template_id: str, actor: str, action: str) -> None:
        await audit_log.record(
            tx, self._clock.now(), actor=actor, action=f"template.{action}", subject=template_id, tenant_id=tenant_id
        )


async def _has_locks(tx: Transaction, tenant_id: int, template_id: str) -> bool:
    from mailwright.content.blocks.locked import has_locks  # noqa: PLC0415 - needed by the dashboard only

    latest = await latest_by_locale(tx, tenant_id, template_id)
    return any(each.format is TemplateFormat.BLOCKS and has_locks(orjson.loads(each.body)) for each in latest.values())


async def _end_drafts(tx: Transaction, tenant_id: int, template_id: str) -> None:
    """End the drafts, so that a new template with this ID does not start from them.

    Browsers with an open draft get a conflict.
    """
    t = template_drafts.c
    drafts = update(template_drafts).where(t.tenant_id == tenant_id, t.template_id == template_id)
    await tx.execute(drafts.values(document=None, revision=t.revision + 1))


async def _lock_versions(tx: Transaction, matching: ColumnElement[bool]) -> Any:
    t = templates.c
    rows = await tx.execute(select(t.id, t.archived_at, t.deleted_at).where(matching).with_for_update())
    if not rows:
        raise NotFound("There is no such template.")
    return rows


def _named(tenant_id: int, template_id: str) -> ColumnElement[bool]:
    """Match the versions of a template. The contents of campaigns, mailouts and articles are not templates."""
    t = templates.c
    is_own = t.template_id.not_like(f"%{RESERVED_CHARACTER}%")
    return and_(t.tenant_id == tenant_id, t.template_id == template_id, is_own)
