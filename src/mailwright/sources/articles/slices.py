"""Store slices. A position (article, section, scope, index) holds one slice: writing to it again changes the slice."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import ColumnElement, and_, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.content.formats import TemplateFormat
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.ids import is_uuid, uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_text
from mailwright.outbox import audit_log
from mailwright.sources.articles.assembly import PublishStatus, Slice, assemble
from mailwright.sources.articles.compose import compose
from mailwright.sources.articles.files import FileProblem, FilesRefused, ParsedSlice
from mailwright.sources.articles.placeholders import as_template
from mailwright.sources.articles.slice_input import SliceProblem, SliceRefused
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import slices

# The number is limited because a run stores all its slices in one row.
MAX_SLICES = 2_000


@dataclass(frozen=True, slots=True)
class ArticleSummary:
    """An article and the number of its slices, in total and with the status `published`."""

    article_key: str
    slices: int
    published: int
    updated_at: Instant


@dataclass(frozen=True, slots=True)
class SliceChanges:
    """The number of slices that a write added, changed and left unchanged."""

    added: int = 0
    changed: int = 0
    unchanged: int = 0


class SlicePositionTaken(NotPossibleNow):
    """Another slice has this position: the same article, section, scope and index."""

    code = "PLACE_TAKEN"


class SliceStore:
    def __init__(self, database: Database, clock: Clock, templates: TemplateStore) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates

    async def put(self, actor: str, tenant_id: int, given: Iterable[Slice]) -> tuple[list[Slice], SliceChanges]:
        """Add or change slices by their position, all of them or none."""
        wanted = list(given)
        for piece in wanted:
            await self.check(tenant_id, piece)
        return await self._put_all(actor, tenant_id, wanted)

    async def import_slices(self, actor: str, tenant_id: int, parsed: Sequence[ParsedSlice]) -> SliceChanges:
        """Store all slices read from files, or raise `FilesRefused` with every invalid line."""
        problems = []
        for line in parsed:
            try:
                await self.check(tenant_id, line.slice)
            except SliceRefused as error:
                problems.append(FileProblem(line.file, line.line, str(error)))
        if problems:
            raise FilesRefused(problems)
        _, changes = await self._put_all(actor, tenant_id, [line.slice for line in parsed])
        return changes

    async def change(self, actor: str, tenant_id: int, slice_id: str, changed: Slice) -> Slice:
        """Replace a slice and possibly move it. Raises `SlicePositionTaken` if another slice has the new position."""
        await self.check(tenant_id, changed)
        moved = replace(changed, slice_id=slice_id)
        try:
            async with self._database.write() as tx:
                await _find(tx, tenant_id, slice_id)
                values = {**_columns(moved), "updated_at": self._clock.now()}
                await tx.execute(update(slices).where(_is(tenant_id, slice_id)).values(**values))
                await self._log(tx, actor, tenant_id, "change", moved.article_key, slice_id=slice_id)
        except IntegrityError as error:
            raise SlicePositionTaken from error
        return moved

    async def remove(self, actor: str, tenant_id: int, slice_id: str) -> None:
        """Remove a slice. Runs that have started keep their copy of it."""
        async with self._database.write() as tx:
            removed = await _find(tx, tenant_id, slice_id)
            await tx.execute(delete(slices).where(_is(tenant_id, slice_id)))
            await self._log(tx, actor, tenant_id, "remove", removed.article_key, slice_id=slice_id)

    async def find(self, tenant_id: int, slice_id: str) -> Slice:
        async with self._database.read() as tx:
            return await _find(tx, tenant_id, slice_id)

    async def list_slices(self, tenant_id: int, article_key: str) -> list[Slice]:
        async with self._database.read() as tx:
            return await list_slices(tx, tenant_id, article_key)

    async def list_articles(self, tenant_id: int) -> list[ArticleSummary]:
        """List articles, ordered by key."""
        s = slices.c
        is_published = func.count().filter(s.publish_status == PublishStatus.PUBLISHED.value)
        query = select(
            s.article_key,
            func.count().label("slices"),
            is_published.label("published"),
            func.max(s.updated_at).label("updated_at"),
        )
        async with self._database.read() as tx:
            rows = await tx.execute(
                query.where(s.tenant_id == tenant_id).group_by(s.article_key).order_by(s.article_key)
            )
        return [ArticleSummary(**row._mapping) for row in rows]

    async def check(self, tenant_id: int, piece: Slice) -> None:
        """Refuse an invalid slice when it is written, so that it does not fail when the first message is built."""
        try:
            # Compile the body alone first, so that line numbers in errors are those of the body.
            await self._templates.compiled(tenant_id, as_template(piece.body_md), TemplateFormat.MARKDOWN)
            composed = await compose(self._templates, tenant_id, assemble([piece]))
            Template(subject=composed.subject, html=composed.html, text=None)
        except InvalidTemplate as error:
            text = error.text
            message = lazy_text(lambda: text.replace("{{ ", "[[").replace(" }}", "]]"))
            raise SliceRefused([SliceProblem("body_md", error.code, message)]) from error

    async def _put_all(self, actor: str, tenant_id: int, wanted: Sequence[Slice]) -> tuple[list[Slice], SliceChanges]:
        try:
            return await self._put_once(actor, tenant_id, wanted)
        except IntegrityError:  # Another writer added one of these slices: the retry changes it.
            return await self._put_once(actor, tenant_id, wanted)

    async def _put_once(self, actor: str, tenant_id: int, wanted: Sequence[Slice]) -> tuple[list[Slice], SliceChanges]:
        stored, counts = [], {"added": 0, "changed": 0, "unchanged": 0}
        async with self._database.write() as tx:
            for piece in wanted:
                stored_piece, change = await self._put(tx, tenant_id, piece)
                stored.append(stored_piece)
                counts[change] += 1
            for article_key in sorted({piece.article_key for piece in wanted}):
                await _check_count(tx, tenant_id, article_key)
                await self._log(tx, actor, tenant_id, "put", article_key, **counts)
        return stored, SliceChanges(**counts)

    async def _put(self, tx: Transaction, tenant_id: int, piece: Slice) -> tuple[Slice, str]:
        now, values = self._clock.now(), _columns(piece)
        rows = await tx.execute(select(slices).where(_at_position(tenant_id, piece)).with_for_update())
        if not rows:
            added = replace(piece, slice_id=uuid7(now))
            await tx.execute(
                insert(slices).values(
                    **values, slice_id=added.slice_id, tenant_id=tenant_id, created_at=now, updated_at=now
                )
            )
            return added, "added"
        existing = slice_from_row(rows[0])
        changed = replace(piece, slice_id=existing.slice_id)
        if changed == existing:
            return existing, "unchanged"
        await tx.execute(update(slices).where(_is(tenant_id, existing.slice_id)).values(**values, updated_at=now))
        return changed, "changed"

    async def _log(
        self, tx: Transaction, actor: str, tenant_id: int, action: str, article_key: str, **detail: Any
    ) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor,
            action=f"slices.{action}",
            subject=article_key,
            tenant_id=tenant_id,
            detail=detail,
        )


async def list_slices(tx: Transaction, tenant_id: int, article_key: str) -> list[Slice]:
    mine = and_(slices.c.tenant_id == tenant_id, slices.c.article_key == article_key)
    rows = await tx.execute(select(slices).where(mine).order_by(slices.c.id))
    return [slice_from_row(row) for row in rows]


def slice_from_row(row: Any) -> Slice:
    return Slice(
        slice_id=row.slice_id,
        article_key=row.article_key,
        body_md=row.body_md,
        section_order=row.section_order,
        sort_index=row.sort_index,
        is_headline=bool(row.is_headline),
        title=row.title,
        dek=row.dek,
        link_url=row.link_url,
        scope_ocd_id=row.scope_ocd_id or None,
        tags=tuple(orjson.loads(row.tags)),
        publish_status=PublishStatus(row.publish_status),
        publish_at=row.publish_at,
        expires_at=row.expires_at,
    )


def slices_to_json(content: Sequence[Slice]) -> str:
    return orjson.dumps(content).decode()


def slices_from_json(text: str) -> list[Slice]:
    return [
        Slice(**{**each, "tags": tuple(each["tags"]), "publish_status": PublishStatus(each["publish_status"])})
        for each in orjson.loads(text)
    ]


async def _check_count(tx: Transaction, tenant_id: int, article_key: str) -> None:
    mine = and_(slices.c.tenant_id == tenant_id, slices.c.article_key == article_key)
    rows = await tx.execute(select(func.count()).select_from(slices).where(mine))
    if rows[0][0] > MAX_SLICES:
        message = lazy_gettext(
            "the article {article} would have more than {most} slices", article=article_key, most=MAX_SLICES
        )
        raise SliceRefused([SliceProblem("article_key", "TOO_MANY_SLICES", message)])


async def _find(tx: Transaction, tenant_id: int, slice_id: str) -> Slice:
    rows = await tx.execute(select(slices).where(_is(tenant_id, slice_id))) if is_uuid(slice_id) else ()
    if not rows:
        raise NotFound("There is no slice with this id", field="slice_id")
    return slice_from_row(rows[0])


def _is(tenant_id: int, slice_id: str) -> ColumnElement[bool]:
    return and_(slices.c.tenant_id == tenant_id, slices.c.slice_id == slice_id)


def _at_position(tenant_id: int, each: Slice) -> ColumnElement[bool]:
    return and_(
        slices.c.tenant_id == tenant_id,
        slices.c.article_key == each.article_key,
        slices.c.section_order == each.section_order,
        slices.c.scope_ocd_id == (each.scope_ocd_id or ""),
        slices.c.sort_index == each.sort_index,
    )


def _columns(each: Slice) -> dict[str, Any]:
    return {
        "article_key": each.article_key,
        "section_order": each.section_order,
        "sort_index": each.sort_index,
        "scope_ocd_id": each.scope_ocd_id or "",
        "is_headline": each.is_headline,
        "title": each.title,
        "dek": each.dek,
        "body_md": each.body_md,
        "link_url": each.link_url,
        "tags": orjson.dumps(each.tags).decode(),
        "publish_status": each.publish_status.value,
        "publish_at": each.publish_at,
        "expires_at": each.expires_at,
    }
