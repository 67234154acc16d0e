"""Render what the composer edits, without storing it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from mailwright.app.wiring import Engine
from mailwright.content.blocks.compile import CompiledDocument, compile_document
from mailwright.content.blocks.document import BlockDocument, FooterBlock, parse_document
from mailwright.content.blocks.starters import Starter
from mailwright.content.brand import Brand
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import PresendContext, run_presend_checks
from mailwright.content.template import RenderedEmail, Template
from mailwright.content.template_store import StoredTemplate
from mailwright.content.variables import Variable, optional_but_required, used_variables
from mailwright.content.work_thread import run_in_thread
from mailwright.domain.errors import NotFound
from mailwright.web.dashboard.sample_values import preview_values

# The compiler names the block of these problems.
_NAMED_BY_COMPILER: Final = frozenset(["IMAGE_WITHOUT_ALT", "EMPTY_LINK"])

# Pages outside of the composer where users fix a problem.
_FIXED_ELSEWHERE: Final = {"LOCAL_IMAGE": {"path": "/settings/sender", "label": "Set the public URL"}}


@dataclass(frozen=True, slots=True)
class ComposedRendering:
    """An email as one contact would get it, and what to improve."""

    email: RenderedEmail
    size_bytes: int
    warnings: list[dict[str, Any]]


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
    parsed = parse_document(document)
    stored, compiled = await _compiled(engine, tenant_id, document, subject or "(no subject)", locale)
    declared = await _declared(engine, tenant_id, template_id)
    stored = replace(stored, variables=with_undeclared(stored.compiled(), declared))
    missing = [{"blockId": None, "message": each} for each in optional_but_required(stored.compiled(), declared)]
    values = await preview_values(engine, tenant_id, stored, contact)
    return ComposedRendering(
        stored.render(values, engine.templates.standard),
        len(stored.html.encode()),
        [*missing, *_warnings(engine, parsed, compiled, stored, subject)],
    )


async def render_starter(engine: Engine, tenant_id: int, starter: Starter) -> RenderedEmail:
    """Render a starter with its own samples."""
    stored, _ = await _compiled(engine, tenant_id, starter.document, starter.subject)
    stored = replace(stored, variables=starter.variables)
    return stored.render(await preview_values(engine, tenant_id, stored, ""), engine.templates.standard)


async def _compiled(
    engine: Engine, tenant_id: int, document: Mapping[str, Any], subject: str, locale: str = ""
) -> tuple[StoredTemplate, CompiledDocument]:
    source = orjson.dumps(document).decode()
    images, brand = await engine.templates.images_and_brand(tenant_id, source)
    parsed = parse_document(source)
    compiled = await run_in_thread(compile_document, parsed, brand, title=subject, locale=locale, images=images)
    format_ = TemplateFormat.BLOCKS
    stored = StoredTemplate(0, tenant_id, "", 0, subject, compiled.html, None, 0, format=format_, source=source)
    return stored, compiled


async def _declared(engine: Engine, tenant_id: int, template_id: str) -> tuple[Variable, ...]:
    try:
        return (await engine.templates.latest(tenant_id, template_id)).variables if template_id else ()
    except NotFound:
        return ()


def with_undeclared(template: Template, declared: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Add the variables that an editor inserted to the declared ones. If none are declared, none need to be."""
    known = {variable.name for variable in declared}
    return declared and (*declared, *(each for each in used_variables(template) if each.name not in known))


def _warnings(
    engine: Engine, document: BlockDocument, compiled: CompiledDocument, stored: StoredTemplate, subject: str
) -> Iterator[dict[str, Any]]:
    for warning in compiled.warnings:
        yield {"blockId": warning.block_id, "message": warning.message}
    is_bulk = not any(isinstance(block, FooterBlock) and block.transactional for block in document.blocks)
    context = PresendContext(is_bulk=is_bulk, postal_address=engine.postal_address)
    for issue in run_presend_checks(subject=subject, html=stored.html, text=None, context=context):
        if issue.code not in _NAMED_BY_COMPILER:
            yield {"blockId": None, "message": issue.sentence, **_FIXED_ELSEWHERE.get(issue.code, {})}
