"""Drafts of the composer: saved while someone edits a template, and published as a new version.

Each save names the revision that its browser read. If another browser has saved since then, nothing is written, and the
caller gets the draft of the other browser.
"""

from dataclasses import replace
from typing import Any, Final

import orjson
from sqlalchemy import delete, select
from sqlalchemy.engine.row import Row

from mailwright.content.template_store import RESERVED_CHARACTER
from mailwright.domain import locales
from mailwright.domain.clock import MINUTE, Clock, Instant
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import template_drafts, template_editors

BEGIN_DRAFT: Final = statement(__package__, "begin_draft")
SAVE_DRAFT: Final = statement(__package__, "save_draft")
RECORD_EDITOR: Final = statement(__package__, "record_editor")
FORGET_EDITORS: Final = statement(__package__, "forget_editors")
# The limit of a template's source.
MAX_DRAFT_BYTES: Final = 1024 * 1024
# A composer reports every few seconds. Without a report for this long, it counts as closed.
EDITOR_LIFETIME: Final[Instant] = MINUTE // 2


@dataclass(frozen=True, slots=True)
class DraftKey:
    """A template of a tenant in one language."""

    tenant_id: int
    template_id: str
    locale: str = ""

    def __post_init__(self) -> None:
        if RESERVED_CHARACTER in self.template_id or not 1 <= len(self.template_id) <= 100:
            raise NotFound("There is no such template.", field="templateId")
        if self.locale != DEFAULT_LOCALE and locales.normal(self.locale) != self.locale:
            raise InvalidInput("The locale is not valid. Use a language code such as pt or pt-BR.", field="locale")


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftContent:
    """The data that a browser saves. `document` is None if the draft ends, because it was published or discarded."""

    revision: int
    base_version: int
    subject: str
    document: dict[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedDraft(DraftContent):
    saved_by: str
    saved_at: Instant

    @property
    def content(self) -> DraftContent:
        """The saved data, without its author and time."""
        return DraftContent(
            revision=self.revision, base_version=self.base_version, subject=self.subject, document=self.document
        )


class DraftChanged(MailwrightError):
    """Someone else saved this draft since it was opened."""

    code = "DRAFT_CHANGED"

    def __init__(self, current: SavedDraft) -> None:
        super().__init__("This draft was saved by {saved_by} since it was opened.", saved_by=current.saved_by)
        self.current = current


class TemplateDrafts:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, key: DraftKey) -> SavedDraft | None:
        """Return the draft, or None if nobody ever saved one. The draft may have ended."""
        t = template_drafts.c
        query = select(template_drafts).where(
            t.tenant_id == key.tenant_id, t.template_id == key.template_id, t.locale == key.locale
        )
        async with self._database.read() as tx:
            rows = await tx.execute(query)
        return _saved(rows[0]) if rows else None

    async def find_author(self, tenant_id: int, template_id: str) -> str | None:
        """Return who saved the latest draft of a template that is not published; None if there is none."""
        t = template_drafts.c
        is_open = (t.tenant_id == tenant_id, t.template_id == template_id, t.document.is_not(None))
        async with self._database.read() as tx:
            rows = await tx.execute(select(t.saved_by).where(*is_open).order_by(t.saved_at.desc()).limit(1))
        return rows[0].saved_by if rows else None

    async def save(self, key: DraftKey, content: DraftContent, *, actor: str) -> SavedDraft:
        """Save a draft if its revision is the current one, 0 for the first. Otherwise raise `DraftChanged`.

        A browser that got no response saves the same content again: this is not a change by someone else.
        """
        document = None if content.document is None else orjson.dumps(content.document).decode()
        if document is not None and len(document.encode()) > MAX_DRAFT_BYTES:
            raise InvalidInput(
                "The email is larger than {kilobytes} KB. Remove some blocks.",
                field="document",
                kilobytes=MAX_DRAFT_BYTES // 1024,
            )
        now = self._clock.now()
        values: dict[str, Any] = {
            "tenant_id": key.tenant_id,
            "template_id": key.template_id,
            "locale": key.locale,
            "base_version": content.base_version,
            "subject": content.subject,
            "document": document,
            "saved_by": actor,
            "saved_at": now,
        }
        async with self._database.write() as tx:
            if content.revision == 0:
                rows = await tx.run(BEGIN_DRAFT, **values)
            else:
                rows = await tx.run(SAVE_DRAFT, **values, revision=content.revision)
        if not rows:
            current = await self.find(key)
            if current is None:
                raise InvalidInput("This draft does not exist. Reload the page.", field="baseRevision")
            if current.saved_by == actor and replace(content, revision=current.revision) == current.content:
                return current
            raise DraftChanged(current)
        return SavedDraft(
            revision=rows[0].revision,
            base_version=content.base_version,
            subject=content.subject,
            document=content.document,
            saved_by=actor,
            saved_at=now,
        )

    async def record_editor(self, key: DraftKey, editor: str, *, login: str) -> list[str]:
        """Record that this browser has the draft open, and return the users who have it open in other browsers."""
        now = self._clock.now()
        place = {"tenant_id": key.tenant_id, "template_id": key.template_id, "locale": key.locale}
        t = template_editors.c
        others = (
            select(t.login)
            .where(
                t.tenant_id == key.tenant_id,
                t.template_id == key.template_id,
                t.locale == key.locale,
                t.editor != editor,
                t.seen_at >= now - EDITOR_LIFETIME,
            )
            .order_by(t.login)
        )
        async with self._database.write() as tx:
            await tx.run(FORGET_EDITORS, before=now - EDITOR_LIFETIME)
            await tx.run(RECORD_EDITOR, **place, editor=editor, login=login, seen_at=now)
            rows = await tx.execute(others)
        return [row.login for row in rows]

    async def forget_editor(self, key: DraftKey, editor: str) -> None:
        t = template_editors.c
        place = (t.tenant_id == key.tenant_id, t.template_id == key.template_id, t.locale == key.locale)
        async with self._database.write() as tx:
            await tx.execute(delete(template_editors).where(*place, t.editor == editor))


def _saved(row: Row[Any]) -> SavedDraft:
    return SavedDraft(
        revision=row.revision,
        base_version=row.base_version,
        subject=row.subject,
        document=None if row.document is None else orjson.loads(row.document),
        saved_by=row.saved_by,
        saved_at=row.saved_at,
    )
