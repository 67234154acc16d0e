"""Render the email in the composer, without storing it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from mailwright.app.template_checks import check_template
from mailwright.app.wiring import Engine
from mailwright.content.blocks.compile import compile_document
from mailwright.content.blocks.document import parse_document
from mailwright.content.blocks.starters import Starter
from mailwright.content.brand import Brand
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import IssueLevel, PresendIssue
from mailwright.content.template import RenderedEmail, Template
from mailwright.content.template_store import StoredTemplate
from mailwright.content.variables import Variable, optional_but_required, used_variables
from mailwright.content.work_thread import run_in_thread
from mailwright.domain.errors import NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import gettext
from mailwright.web.dashboard.sample_values import preview_values


@dataclass(frozen=True, slots=True)
class ComposedRendering:
    """An email as one contact would get it, and the issues to fix."""

    email: RenderedEmail
    size_bytes: int
    issues: list[PresendIssue]


async def brand_of(engine: Engine, tenant_id: int) -> Brand:
    return await engine.brands.load(tenant_id)


async def render_document(
    engine: Engine,
    tenant_id: int,
    document: Mapping[str, Any],
    subject: str,
    *,
    contact: str = "",
    template_id: str = "",
    locale: str = "",
) -> ComposedRendering:
    """Render for a contact, or with the samples of the template that is edited."""
    draft = await _compiled(engine, tenant_id, document, subject or gettext("(no subject)"), locale)
    published = await _published(engine, tenant_id, template_id, locale)
    declared = published.variables if published is not None else ()
    draft = replace(draft, variables=with_undeclared(draft.compiled(), declared))
    missing = optional_but_required(draft.compiled(), declared)
    values = await preview_values(engine, tenant_id, draft, contact)
    is_published = published is not None and _is_same(published, locale, subject, document)
    checked = published if published is not None and is_published else replace(draft, subject=subject)
    issues = await check_template(engine.database, checked, postal_address=engine.postal_address)
    return ComposedRendering(
        draft.render(values, engine.templates.standard),
        len(draft.html.encode()),
        [*(PresendIssue(IssueLevel.WARNING, "OPTIONAL_VARIABLE", each, "html") for each in missing), *issues],
    )


async def render_starter(engine: Engine, tenant_id: int, starter: Starter) -> RenderedEmail:
    """Render a starter with its own samples."""
    stored = await _compiled(engine, tenant_id, starter.document, starter.subject)
    stored = replace(stored, variables=starter.variables)
    return stored.render(await preview_values(engine, tenant_id, stored, ""), engine.templates.standard)


async def _compiled(
    engine: Engine, tenant_id: int, document: Mapping[str, Any], subject: str, locale: str = ""
) -> StoredTemplate:
    source = orjson.dumps(document).decode()
    images, brand = await engine.templates.images_and_brand(tenant_id, source)
    parsed = parse_document(source)
    compiled = await run_in_thread(compile_document, parsed, brand, title=subject, locale=locale, images=images)
    return StoredTemplate(
        0,
        tenant_id,
        "",
        0,
        subject,
        compiled.html,
        None,
        0,
        locale=locale,
        format=TemplateFormat.BLOCKS,
        source=source,
    )


async def _published(engine: Engine, tenant_id: int, template_id: str, locale: str) -> StoredTemplate | None:
    try:
        return await engine.templates.latest(tenant_id, template_id, locale or None) if template_id else None
    except NotFound:
        return None


def _is_same(published: StoredTemplate, locale: str, subject: str, document: Mapping[str, Any]) -> bool:
    """Return whether the composer shows the published version, so that its issues are those of this version."""
    if published.format is not TemplateFormat.BLOCKS or (published.locale, published.subject) != (locale, subject):
        return False
    return bool(orjson.loads(published.body) == document)


def with_undeclared(template: Template, declared: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Add the variables that an editor inserted to the declared ones. If none are declared, none need to be."""
    known = {variable.name for variable in declared}
    return declared and (*declared, *(each for each in used_variables(template) if each.name not in known))
