"""Templates of tenants: stored as versions that never change, and compiled once in each process."""

import difflib
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, func, insert, select

from mailwright.content.formats import TemplateFormat
from mailwright.content.headers import Mailbox
from mailwright.content.images import ImageStore
from mailwright.content.layout import Layout, SharedHeaders
from mailwright.content.template import InvalidTemplate, RenderedEmail, Template
from mailwright.content.variables import (
    STANDARD_VARIABLES,
    Variable,
    check_declared,
    missing_variables,
    standard_values,
    used_variables,
)
from mailwright.domain import locales
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import templates, tenants

# What is kept in memory: so many versions, and so many letters of them all together, as one may have megabytes.
MAX_CACHED_VERSIONS = 1_000
MAX_CACHED_CHARACTERS = 32 * 1024 * 1024
# Whoever asked so lately may not have built their mails yet: what they asked for stays, however much it is.
RECENT_LOADS = 16
# Names that hold this are ours: what a campaign says is kept under such a name.
RESERVED_CHARACTER = ":"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateDraft:
    """What an author writes down."""

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
    source: str | None = None  # None where the HTML is what the author wrote
    variables: tuple[Variable, ...] = ()

    @property
    def body(self) -> str:
        """As the author wrote it."""
        return self.html if self.source is None else self.source

    @property
    def letters(self) -> int:
        """What it takes to keep it."""
        return sum(len(part or "") for part in (self.subject, self.html, self.text, self.source))

    def expected_variables(self) -> tuple[Variable, ...]:
        """What was declared, or what is used where nothing was."""
        return self.variables or used_variables(self.compiled())

    def render(
        self, values: Mapping[str, Any], standard_values: Mapping[str, str] = STANDARD_VARIABLES
    ) -> RenderedEmail:
        """What a reader would get; samples stand in for what is not given. Everything that is missing is told."""
        template = self.compiled()
        samples = {each.name: each.sample for each in self.variables if each.sample is not None}
        given = {**standard_values, **samples, **values}
        if lacking := missing_variables(template, given):
            raise InvalidTemplate(f"the template needs {', '.join(lacking)}: give values, or declare samples")
        return template.render(given)

    def compiled(self) -> Template:
        return Template(subject=self.subject, html=self.html, text=self.text)


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
        self._clock = clock
        self._images = images
        self._public_url = public_url
        self.standard = standard_values(postal_address)
        self._known: dict[int, StoredTemplate] = {}
        self._letters = 0  # of all that is known
        self._asked_for: deque[Collection[int]] = deque(maxlen=RECENT_LOADS)

    async def write(
        self, tenant_id: int, template_id: str, draft: TemplateDraft, *, actor: str | None = None
    ) -> StoredTemplate:
        """A new version, made from what its author wrote. Whoever has a name is named in the journal."""
        if RESERVED_CHARACTER in template_id or "/" in template_id:
            raise InvalidInput("a template id has neither a colon nor a slash", field="templateId")
        locale = DEFAULT_LOCALE if draft.locale == DEFAULT_LOCALE else locales.normal(draft.locale)
        if locale is None:
            raise InvalidInput("a locale looks like pt or pt-BR", field="locale")
        html = await self.compiled(tenant_id, draft.body, draft.format, title=draft.subject, locale=locale)
        check_declared(Template(subject=draft.subject, html=html, text=draft.text), draft.variables)
        stored = {
            "subject": draft.subject,
            "html": html,
            "text": draft.text,
            "locale": locale,
            "format": draft.format.value,
            "source": draft.body if html != draft.body else None,
            "variables": orjson.dumps(draft.variables).decode(),
        }
        return await self._insert(tenant_id, template_id, stored, actor)

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
        """A new version of ready HTML. What is wrong with it is said now, not when the first mail is built."""
        stored = {"subject": subject, "html": html, "text": text, "locale": locale}
        return await self._insert(tenant_id, template_id, stored)

    async def compiled(
        self,
        tenant_id: int,
        body: str,
        format: TemplateFormat,  # noqa: A002 - the word that people use
        *,
        title: str = "",
        locale: str = DEFAULT_LOCALE,
    ) -> str:
        """The HTML of a mail, with the addresses of the tenant's images in place of their names."""
        # Compilers for three formats: whoever only reads templates need not have them.
        from mailwright.content.authoring import compile_to_html, image_names  # noqa: PLC0415

        found = await self._images.named(tenant_id, image_names(body)) if self._images else {}
        urls = {name: image.url(self._public_url) for name, image in found.items()}
        return compile_to_html(body, format, title=title, locale=locale, images=urls)

    async def latest(self, tenant_id: int, template_id: str, locale: str | None = None) -> StoredTemplate:
        """For readers of this locale, or for everyone."""
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
            raise NotFound(f"there is no version {version} of the template {template_id[:80]!r}", field="version")
        return _stored(rows[0])

    async def versions(self, tenant_id: int, template_id: str) -> list[StoredTemplate]:
        """The latest first."""
        query = select(templates).where(_named(tenant_id, template_id)).order_by(templates.c.version.desc())
        async with self._database.read() as tx:
            rows = await tx.execute(query.limit(1_000))
        if not rows:
            raise _no_template(template_id)
        return [_stored(row) for row in rows]

    async def versions_to_compare(
        self, tenant_id: int, template_id: str, before: int | None, after: int | None
    ) -> tuple[StoredTemplate, StoredTemplate]:
        """Two versions to compare: the newest and the one before it in its locale, where they are not named."""
        known = await self.versions(tenant_id, template_id)
        newer = known[0] if after is None else await self.version(tenant_id, template_id, after)
        if before is not None:
            return await self.version(tenant_id, template_id, before), newer
        older = (each for each in known if each.version < newer.version and each.locale == newer.locale)
        return next(older, newer), newer

    async def some(self, tenant_id: int, *, limit: int, after: str = "") -> list[dict[str, StoredTemplate]]:
        """The newest version of each locale, template by template in the order of their ids."""
        t = templates.c
        matching = (t.tenant_id == tenant_id, t.template_id.not_like(f"%{RESERVED_CHARACTER}%"), t.template_id > after)
        ids = select(t.template_id).where(*matching).distinct().order_by(t.template_id).limit(limit)
        async with self._database.read() as tx:
            names = [row.template_id for row in await tx.execute(ids)]
            newest = select(func.max(t.id)).where(t.tenant_id == tenant_id, t.template_id.in_(names))
            rows = await tx.execute(
                select(templates).where(t.id.in_(newest.group_by(t.template_id, t.locale))).order_by(t.locale)
            )
        found: dict[str, dict[str, StoredTemplate]] = {name: {} for name in names}
        for row in rows:
            found[row.template_id][row.locale] = _stored(row)
        return list(found.values())

    async def load(self, keys: Collection[int]) -> None:
        """Makes these versions known, so that `known` answers without a database."""
        self._asked_for.append(keys)
        missing_keys = [key for key in keys if key not in self._known]
        if not missing_keys:
            return
        async with self._database.read() as tx:
            rows = await tx.execute(select(templates).where(templates.c.id.in_(missing_keys)))
        for row in rows:
            self._learn(_stored(row))
        self._forget_oldest()

    def known(self, key: int) -> StoredTemplate | None:
        return self._known.get(key)

    def _learn(self, template: StoredTemplate) -> None:
        """Of two that asked at once, the second brings nothing new."""
        if template.key not in self._known:
            self._known[template.key] = template
            self._letters += template.letters

    def _forget_oldest(self) -> None:
        if len(self._known) <= MAX_CACHED_VERSIONS and self._letters <= MAX_CACHED_CHARACTERS:
            return
        needed = set().union(*self._asked_for)
        for key in [key for key in self._known if key not in needed]:
            self._letters -= self._known.pop(key).letters
            if len(self._known) <= MAX_CACHED_VERSIONS and self._letters <= MAX_CACHED_CHARACTERS:
                return

    async def _insert(
        self, tenant_id: int, template_id: str, stored: Mapping[str, Any], actor: str | None = None
    ) -> StoredTemplate:
        if not template_id or len(template_id) > 100:
            raise InvalidInput("a template id has 1 to 100 characters", field="templateId")
        frame = SharedHeaders(Mailbox("check@localhost"))
        Layout.compile(frame, subject=stored["subject"], html=stored["html"], text=stored["text"])
        same = _named(tenant_id, template_id)
        async with self._database.write() as tx:
            # Two authors at once get two numbers.
            await tx.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update())
            newest = (await tx.execute(select(func.max(templates.c.version)).where(same)))[0][0]
            if newest is None and stored["locale"] != DEFAULT_LOCALE:
                raise InvalidInput("store the version for everyone first, without a locale", field="locale")
            values = {
                **stored,
                "tenant_id": tenant_id,
                "template_id": template_id,
                "version": (newest or 0) + 1,
                "created_at": self._clock.now(),
            }
            rows = await tx.execute(insert(templates).values(**values).returning(templates))
            if actor is not None:
                detail = {"version": values["version"], "locale": stored["locale"]}
                now, deed = values["created_at"], {"action": "template.write", "subject": template_id}
                await audit_log.record(tx, now, actor=actor, tenant_id=tenant_id, detail=detail, **deed)
        return _stored(rows[0])


async def latest_by_locale(tx: Transaction, tenant_id: int, template_id: str) -> dict[str, StoredTemplate]:
    """The newest version for each locale that has one; nothing where there is no such template."""
    newest = select(func.max(templates.c.id)).where(_named(tenant_id, template_id)).group_by(templates.c.locale)
    rows = await tx.execute(select(templates).where(templates.c.id.in_(newest)).order_by(templates.c.locale))
    return {row.locale: _stored(row) for row in rows}


def diff_versions(before: StoredTemplate, after: StoredTemplate) -> str:
    """What an author changed from one version to the other, line by line, in the form of `diff -u`."""
    lines: list[str] = []
    for part, old, new in (
        ("subject", before.subject, after.subject),
        ("body", before.body, after.body),
        ("text", before.text or "", after.text or ""),
    ):
        names = (f"{part} of version {before.version}", f"{part} of version {after.version}")
        lines += difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _named(tenant_id: int, template_id: str) -> ColumnElement[bool]:
    return (templates.c.tenant_id == tenant_id) & (templates.c.template_id == template_id)


def _no_template(template_id: str) -> NotFound:
    return NotFound(f"there is no template {template_id[:80]!r}", field="templateId")


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
        variables=tuple(Variable(**each) for each in orjson.loads(row.variables)),
    )
