"""Stored templates: versions that never change, compiled once per process."""

import difflib
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from typing import Any, assert_never

import orjson
from sqlalchemy import ColumnElement, func, insert, literal, select

from mailwright.content.brand import Brand
from mailwright.content.brand_store import load_brand
from mailwright.content.formats import TemplateFormat
from mailwright.content.headers import Mailbox
from mailwright.content.images import ImageStore
from mailwright.content.layout import Layout, SharedHeaders
from mailwright.content.segments_used import IN_SEGMENTS, segments_used
from mailwright.content.social_icons import icon_urls
from mailwright.content.template import InvalidTemplate, RenderedEmail, Template
from mailwright.content.variables import (
    STANDARD_VARIABLES,
    Variable,
    check_declared,
    missing_variables,
    standard_values,
    used_variables,
)
from mailwright.content.work_thread import run_in_thread
from mailwright.domain import locales
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.domain.record_state import RecordState
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.expressions import lower_ascii, position
from mailwright.storage.tables import templates, tenants

# Limits of the cache: the number of versions, and their total number of characters, because a version may have
# megabytes.
MAX_CACHED_VERSIONS = 1_000
MAX_CACHED_CHARACTERS = 32 * 1024 * 1024
# The versions of this many latest loads stay cached, because their messages may not be built yet.
RECENT_LOADS = 16
# Template IDs with this character are internal, for example the content of a campaign.
RESERVED_CHARACTER = ":"


class TemplateExists(NotPossibleNow):
    """A template with this ID already exists."""

    def __init__(self, template_id: str, *, is_deleted: bool = False) -> None:
        super().__init__(
            "The template {template_id} was deleted and can be restored. Choose another ID."
            if is_deleted
            else "The template {template_id} already exists. Choose another ID.",
            template_id=repr(template_id[:80]),
            field="templateId",
        )


class VersionChanged(NotPossibleNow):
    """Someone stored a newer version than the one that a change began with."""

    def __init__(self, template_id: str) -> None:
        super().__init__(
            "The template {template_id} has a newer version. Reload it.",
            field="baseVersion",
            template_id=repr(template_id[:80]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateDraft:
    """A template as its author writes it."""

    subject: str
    body: str
    format: TemplateFormat = TemplateFormat.HTML
    text: str | None = None
    locale: str = DEFAULT_LOCALE
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredTemplate:
    key: int
    tenant_id: int
    template_id: str
    version: int
    subject: str
    html: str
    text: str | None
    created_at: Instant
    locale: str = DEFAULT_LOCALE
    format: TemplateFormat = TemplateFormat.HTML
    source: str | None = None  # None if the author wrote the HTML itself
    variables: tuple[Variable, ...] = ()
    is_archived: bool = False
    brand: str | None = None  # The brand kit that the HTML of a design was made with, as JSON.

    @property
    def body(self) -> str:
        """The source as the author wrote it."""
        return self.html if self.source is None else self.source

    @property
    def size(self) -> int:
        """Number of characters, for the limit of the cache."""
        return sum(len(part or "") for part in (self.subject, self.html, self.text, self.source))

    def expected_variables(self) -> tuple[Variable, ...]:
        """Return the declared variables, or the used ones if none are declared."""
        return self.variables or used_variables(self.compiled())

    def render(
        self, values: Mapping[str, Any], standard_values: Mapping[str, str] = STANDARD_VARIABLES
    ) -> RenderedEmail:
        """Render for a preview; samples replace missing values. Raise an error that lists all values still missing.

        Without memberships in `values`, the recipient counts as a member of every segment in the template's conditions.
        """
        template = self.compiled()
        samples = {variable.name: variable.sample for variable in self.variables if variable.sample is not None}
        members = dict.fromkeys(segments_used(self.subject, self.html, self.text), True)
        given = {**standard_values, IN_SEGMENTS: members, **samples, **values}
        if lacking := missing_variables(template, given):
            raise InvalidTemplate(
                "The template needs {lacking}: provide values, or declare samples.", lacking=", ".join(lacking)
            )
        return template.render(given)

    def compiled(self) -> Template:
        return Template(subject=self.subject, html=self.html, text=self.text)


async def find_template_ids(database: Database, tenant_id: int, text: str, *, limit: int) -> list[str]:
    """Return the IDs that contain the text."""
    t = templates.c
    matching = (
        t.tenant_id == tenant_id,
        t.deleted_at.is_(None),
        t.template_id.not_like(f"%{RESERVED_CHARACTER}%"),
    )
    contains = position(lower_ascii(t.template_id), lower_ascii(literal(text))) > 0
    wanted = select(t.template_id).where(*matching, contains).distinct().order_by(t.template_id).limit(limit)
    async with database.read() as tx:
        return [row.template_id for row in await tx.execute(wanted)]


class TemplateStore:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        images: ImageStore | None = None,
        public_url: str = "",
        postal_address: str | None = None,
    ) -> None:
        self._database = database
        self.clock = clock
        self._images = images
        self._public_url = public_url
        self.standard = standard_values(postal_address)
        self._cached: dict[int, StoredTemplate] = {}
        self._cached_characters = 0
        self._recent: deque[Collection[int]] = deque(maxlen=RECENT_LOADS)

    async def write(
        self,
        tenant_id: int,
        template_id: str,
        draft: TemplateDraft,
        *,
        actor: str | None = None,
        must_be_new: bool = False,
        must_be_unused: bool = False,
        keeps_locked: bool = False,
        base_version: int | None = None,
    ) -> StoredTemplate:
        """Compile a draft and store it as a new version. An `actor` is recorded in the audit log.

        If `keeps_locked` is true, the blocks that a developer locked must be unchanged.
        If `must_be_new` is true, a template with this ID must not exist yet, because email would use the new version.
        If `must_be_unused` is true, a deleted template must not have this ID either, because it can be restored.
        If `base_version` is set and not the latest version of the locale (0: there is none), raise `VersionChanged`.
        """
        if RESERVED_CHARACTER in template_id or "/" in template_id:
            raise InvalidInput("A template ID cannot contain a colon or a slash.", field="templateId")
        locale = DEFAULT_LOCALE if draft.locale == DEFAULT_LOCALE else locales.normal(draft.locale)
        if locale is None:
            raise InvalidInput("The locale is not valid. Use a language code such as pt or pt-BR.", field="locale")
        if keeps_locked:
            await self.check_locked(tenant_id, template_id, draft, locale)
        else:
            await self._require_no_deleted_locks(tenant_id, template_id)
        html, brand = await self._compile(tenant_id, draft.body, draft.format, title=draft.subject, locale=locale)
        check_declared(Template(subject=draft.subject, html=html, text=draft.text), draft.variables)
        stored = {
            "subject": draft.subject,
            "html": html,
            "text": draft.text,
            "locale": locale,
            "format": draft.format.value,
            "source": draft.body if html != draft.body else None,
            "variables": orjson.dumps(draft.variables).decode(),
            "brand": brand.model_dump_json(by_alias=True) if draft.format is TemplateFormat.BLOCKS else None,
        }
        return await self._insert(
            tenant_id,
            template_id,
            stored,
            actor,
            must_be_new=must_be_new,
            must_be_unused=must_be_unused,
            base_version=base_version,
        )

    async def check_locked(self, tenant_id: int, template_id: str, draft: TemplateDraft, locale: str) -> None:
        """Raise if the draft changes blocks that a developer locked in the latest version, or locks others.

        A new template with the ID of a deleted one keeps its locks.
        """
        from mailwright.content.blocks.document import read_json  # noqa: PLC0415 - needed by the composer only
        from mailwright.content.blocks.locked import check_locked, check_no_locks  # noqa: PLC0415

        after = read_json(draft.body) if draft.format is TemplateFormat.BLOCKS else None
        async with self._database.read() as tx:
            found = await latest_by_locale(tx, tenant_id, template_id, is_deleted_included=True)
        before = locales.best(found, locale or None) if found else None
        if before is not None and before.format is TemplateFormat.BLOCKS:
            check_locked(orjson.loads(before.body), after)
        elif after is not None:
            check_no_locks(after)

    async def _require_no_deleted_locks(self, tenant_id: int, template_id: str) -> None:
        """Raise if a deleted template with this ID has locked blocks, which a new version would lose."""
        from mailwright.content.blocks.locked import has_locks  # noqa: PLC0415 - needed by the composer only

        async with self._database.read() as tx:
            if await tx.execute(select(templates.c.id).where(_named(tenant_id, template_id)).limit(1)):
                return
            deleted = await latest_by_locale(tx, tenant_id, template_id, is_deleted_included=True)
        designs = (each for each in deleted.values() if each.format is TemplateFormat.BLOCKS)
        if any(has_locks(orjson.loads(each.body)) for each in designs):
            raise TemplateExists(template_id, is_deleted=True)

    async def put(
        self,
        tenant_id: int,
        template_id: str,
        *,
        subject: str,
        html: str,
        text: str | None,
        locale: str = DEFAULT_LOCALE,
    ) -> StoredTemplate:
        """Store HTML as a new version. Raises its problems now, so that they do not occur when emails are built."""
        stored = {"subject": subject, "html": html, "text": text, "locale": locale}
        return await self._insert(tenant_id, template_id, stored)

    async def compiled(
        self,
        tenant_id: int,
        body: str,
        format: TemplateFormat,  # noqa: A002 - the usual word
        *,
        title: str = "",
        locale: str = DEFAULT_LOCALE,
    ) -> str:
        """Compile the source to HTML, and replace the names of the tenant's images by their URLs."""
        return (await self._compile(tenant_id, body, format, title=title, locale=locale))[0]

    async def _compile(
        self,
        tenant_id: int,
        body: str,
        format: TemplateFormat,  # noqa: A002 - the usual word
        *,
        title: str,
        locale: str,
    ) -> tuple[str, Brand]:
        """Return the HTML and the brand kit that it was made with."""
        # Imported only here, because reading templates does not need the compilers.
        from mailwright.content.blocks.compile import compile_template  # noqa: PLC0415

        urls, brand = await self.images_and_brand(tenant_id, body)
        options: dict[str, Any] = {"title": title, "locale": locale, "images": urls, "brand": brand}
        return await run_in_thread(compile_template, body, format, **options), brand

    async def images_and_brand(self, tenant_id: int, body: str) -> tuple[dict[str, str], Brand]:
        """Return the URLs of the images that the source names, and the brand kit."""
        from mailwright.content.authoring import image_names  # noqa: PLC0415

        urls: dict[str, str] = {}
        if self._images is not None:
            found = await self._images.named(tenant_id, image_names(body))
            urls = {name: self._images.url(image, self._public_url) for name, image in found.items()}
        if '"social"' in body:
            urls |= icon_urls(self._public_url)
        async with self._database.read() as tx:
            return urls, await load_brand(tx, tenant_id)

    async def latest(self, tenant_id: int, template_id: str, locale: str | None = None) -> StoredTemplate:
        """Return the newest version for this locale, or the default version."""
        async with self._database.read() as tx:
            found = await latest_by_locale(tx, tenant_id, template_id)
        if not found:
            raise _no_template(template_id)
        return locales.best(found, locale)

    async def version(self, tenant_id: int, template_id: str, version: int) -> StoredTemplate:
        condition = _named(tenant_id, template_id) & (templates.c.version == version)
        async with self._database.read() as tx:
            rows = await tx.execute(select(templates).where(condition))
        if not rows:
            raise NotFound(
                "There is no version {version} of the template {template_id}.",
                field="version",
                version=version,
                template_id=repr(template_id[:80]),
            )
        return _stored(rows[0])

    async def versions(self, tenant_id: int, template_id: str) -> list[StoredTemplate]:
        """Return the versions of a template, newest first."""
        query = select(templates).where(_named(tenant_id, template_id)).order_by(templates.c.version.desc())
        async with self._database.read() as tx:
            rows = await tx.execute(query.limit(1_000))
        if not rows:
            raise _no_template(template_id)
        return [_stored(row) for row in rows]

    async def versions_to_compare(
        self, tenant_id: int, template_id: str, before: int | None, after: int | None
    ) -> tuple[StoredTemplate, StoredTemplate]:
        """Return two versions to compare: by default the newest and the one before it in the same locale."""
        known = await self.versions(tenant_id, template_id)
        newer = known[0] if after is None else await self.version(tenant_id, template_id, after)
        if before is not None:
            return await self.version(tenant_id, template_id, before), newer
        older = (stored for stored in known if stored.version < newer.version and stored.locale == newer.locale)
        return next(older, newer), newer

    async def list_page(
        self, tenant_id: int, *, limit: int, after: str = "", state: RecordState = RecordState.ACTIVE
    ) -> list[dict[str, StoredTemplate]]:
        """Return the newest version of each locale, ordered by template ID."""
        t = templates.c
        is_shown = is_in_state(state)
        matching = (t.tenant_id == tenant_id, t.template_id.not_like(f"%{RESERVED_CHARACTER}%"), t.template_id > after)
        ids = select(t.template_id).where(*matching, is_shown).distinct().order_by(t.template_id).limit(limit)
        async with self._database.read() as tx:
            names = [row.template_id for row in await tx.execute(ids)]
            newest = select(func.max(t.id)).where(t.tenant_id == tenant_id, t.template_id.in_(names), is_shown)
            rows = await tx.execute(
                select(templates).where(t.id.in_(newest.group_by(t.template_id, t.locale))).order_by(t.locale)
            )
        found: dict[str, dict[str, StoredTemplate]] = {name: {} for name in names}
        for row in rows:
            found[row.template_id][row.locale] = _stored(row)
        return list(found.values())

    async def load(self, keys: Collection[int]) -> None:
        """Load these versions into the cache, so that `cached` finds them without a query."""
        self._recent.append(keys)
        missing_keys = [key for key in keys if key not in self._cached]
        if not missing_keys:
            return
        async with self._database.read() as tx:
            rows = await tx.execute(select(templates).where(templates.c.id.in_(missing_keys)))
        for row in rows:
            self._add(_stored(row))
        self._evict()

    def cached(self, key: int) -> StoredTemplate | None:
        return self._cached.get(key)

    def _add(self, template: StoredTemplate) -> None:
        """Add to the cache. When two tasks load the same version, the second adds nothing."""
        if template.key not in self._cached:
            self._cached[template.key] = template
            self._cached_characters += template.size

    def _evict(self) -> None:
        if len(self._cached) <= MAX_CACHED_VERSIONS and self._cached_characters <= MAX_CACHED_CHARACTERS:
            return
        needed = set().union(*self._recent)
        for key in [key for key in self._cached if key not in needed]:
            self._cached_characters -= self._cached.pop(key).size
            if len(self._cached) <= MAX_CACHED_VERSIONS and self._cached_characters <= MAX_CACHED_CHARACTERS:
                return

    async def _insert(
        self,
        tenant_id: int,
        template_id: str,
        stored: Mapping[str, Any],
        actor: str | None = None,
        *,
        must_be_new: bool = False,
        must_be_unused: bool = False,
        base_version: int | None = None,
    ) -> StoredTemplate:
        if not template_id or len(template_id) > 100:
            raise InvalidInput("A template ID must have 1 to 100 characters.", field="templateId")
        frame = SharedHeaders(Mailbox("check@mailwright.localhost"))
        Layout.compile(frame, subject=stored["subject"], html=stored["html"], text=stored["text"])
        segments = segments_used(stored["subject"], stored["html"], stored["text"])
        same = _named(tenant_id, template_id)
        async with self._database.write() as tx:
            # Lock the tenant, so that concurrent writes get different version numbers.
            await tx.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update())
            newest = (await tx.execute(select(func.max(templates.c.version)).where(same)))[0][0]
            # The versions of a deleted template keep their numbers, because messages may use them.
            last = (await tx.execute(select(func.max(templates.c.version)).where(_all_of(tenant_id, template_id))))[0][
                0
            ]
            if (must_be_new and newest is not None) or (must_be_unused and last is not None):
                raise TemplateExists(template_id, is_deleted=newest is None)
            if base_version is not None:
                in_locale = select(func.max(templates.c.version)).where(same, templates.c.locale == stored["locale"])
                if ((await tx.execute(in_locale))[0][0] or 0) != base_version:
                    raise VersionChanged(template_id)
            if newest is None and stored["locale"] != DEFAULT_LOCALE:
                raise InvalidInput("No default version exists. Store a version without a locale first.", field="locale")
            values = {
                **stored,
                "segments": orjson.dumps(segments).decode(),
                "tenant_id": tenant_id,
                "template_id": template_id,
                "version": (last or 0) + 1,
                "created_at": self.clock.now(),
            }
            rows = await tx.execute(insert(templates).values(**values).returning(templates))
            if actor is not None:
                detail = {"version": values["version"], "locale": stored["locale"]}
                now, entry = values["created_at"], {"action": "template.write", "subject": template_id}
                await audit_log.record(tx, now, actor=actor, tenant_id=tenant_id, detail=detail, **entry)
        return _stored(rows[0])


def is_in_state(state: RecordState) -> ColumnElement[bool]:
    """Match the versions of templates that a list of this state shows."""
    archived, deleted = templates.c.archived_at, templates.c.deleted_at
    match state:
        case RecordState.ACTIVE:
            return archived.is_(None) & deleted.is_(None)
        case RecordState.ARCHIVED:
            return archived.is_not(None) & deleted.is_(None)
        case RecordState.DELETED:
            return deleted.is_not(None)
    assert_never(state)


async def latest_by_locale(
    tx: Transaction, tenant_id: int, template_id: str, *, is_deleted_included: bool = False
) -> dict[str, StoredTemplate]:
    """Return the newest version for each locale; empty if the template does not exist."""
    matching = (_all_of if is_deleted_included else _named)(tenant_id, template_id)
    newest = select(func.max(templates.c.id)).where(matching).group_by(templates.c.locale)
    rows = await tx.execute(select(templates).where(templates.c.id.in_(newest)).order_by(templates.c.locale))
    return {row.locale: _stored(row) for row in rows}


async def newest_subjects(tx: Transaction, tenant_id: int, template_ids: Collection[str]) -> dict[str, str]:
    """Return the subjects of templates, in the default version. A template that does not exist is left out."""
    t = templates.c
    wanted = (t.tenant_id == tenant_id, t.template_id.in_(template_ids), t.locale == DEFAULT_LOCALE)
    newest = select(func.max(t.id)).where(*wanted, t.deleted_at.is_(None)).group_by(t.template_id)
    rows = await tx.execute(select(t.template_id, t.subject).where(t.id.in_(newest)))
    return {row.template_id: row.subject for row in rows}


def diff_versions(before: StoredTemplate, after: StoredTemplate) -> str:
    """Return the differences of the author's source between two versions, in the format of `diff -u`."""
    return "".join(f"{line}\n" for _, lines in diff_parts(before, after) for line in lines)


def diff_parts(before: StoredTemplate, after: StoredTemplate) -> Iterator[tuple[str, list[str]]]:
    """Yield the parts that differ, with the lines of `diff -u`: two lines that name the versions come first."""
    for part, old, new in (
        ("subject", before.subject, after.subject),
        ("body", before.body, after.body),
        ("text", before.text or "", after.text or ""),
    ):
        names = (f"{part} of version {before.version}", f"{part} of version {after.version}")
        lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm=""))
        if lines:
            yield part, lines


def _named(tenant_id: int, template_id: str) -> ColumnElement[bool]:
    return _all_of(tenant_id, template_id) & templates.c.deleted_at.is_(None)


def _all_of(tenant_id: int, template_id: str) -> ColumnElement[bool]:
    """Match all versions of a template, even if it is deleted."""
    return (templates.c.tenant_id == tenant_id) & (templates.c.template_id == template_id)


def _no_template(template_id: str) -> NotFound:
    return NotFound("There is no template {template_id}.", field="templateId", template_id=repr(template_id[:80]))


def _stored(row: Any) -> StoredTemplate:
    return StoredTemplate(
        key=row.id,
        tenant_id=row.tenant_id,
        template_id=row.template_id,
        version=row.version,
        subject=row.subject,
        html=row.html,
        text=row.text,
        created_at=row.created_at,
        locale=row.locale,
        format=TemplateFormat(row.format),
        source=row.source,
        variables=tuple(Variable(**variable) for variable in orjson.loads(row.variables)),
        is_archived=row.archived_at is not None,
        brand=row.brand,
    )
