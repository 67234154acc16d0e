"""Content that is not ready: a draft of the composer that nobody published, or a design without content."""

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import cache
from typing import Any, Final

import orjson
from selectolax.lexbor import LexborHTMLParser
from sqlalchemy import select

from mailwright.content.blocks.starters import list_starters
from mailwright.content.brand_store import load_brand
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import PresendIssue, host_of, links_of, presend_issue
from mailwright.content.template_store import StoredTemplate, latest_by_locale
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.variants import CampaignProblem, LocalizedContent
from mailwright.storage.database import Transaction
from mailwright.storage.tables import template_drafts

# Blocks of a new design that its author does not write.
_AROUND: Final = frozenset({"header", "footer", "divider", "spacer"})
_FIELD: Final = "content.templateId"
# Issues of a design, which users fix in the composer.
DESIGN_CODES: Final = frozenset({"UNPUBLISHED_DRAFT", "BLANK_DESIGN", "UNFINISHED_BLOCK", "SAMPLE_TEXT"})
_SAMPLE_HOST: Final = re.compile(r"(?:.+\.)?(example\.(?:com|org|net))")
# Shorter texts of a starter, such as a greeting, may be right as they are.
_MIN_SAMPLE: Final = 40


async def find_unfinished(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition
) -> AsyncIterator[CampaignProblem]:
    """Yield a problem if recipients would get another email than the one that its author wrote."""
    template_id = definition.content.template_id
    if template_id is None:
        return
    t = template_drafts.c
    open_drafts = select(t.saved_by, t.locale).where(
        t.tenant_id == tenant_id, t.template_id == template_id, t.document.is_not(None)
    )
    if rows := await tx.execute(open_drafts.order_by(t.saved_at.desc()).limit(1)):
        message = f"the template {template_id} has a draft of {rows[0].saved_by} that is not published"
        remedy = "choose “Publish” or “Discard draft” in the composer"
        yield CampaignProblem(_FIELD, "UNPUBLISHED_DRAFT", f"{message}; {remedy}", rows[0].locale)
    for stored in (await latest_by_locale(tx, tenant_id, template_id)).values():
        if stored.format is TemplateFormat.BLOCKS and _is_blank(orjson.loads(stored.source or "{}")):
            message = f"the template {template_id} has no content yet"
            yield CampaignProblem(_FIELD, "BLANK_DESIGN", message, stored.locale)


async def find_block_warnings(tx: Transaction, tenant_id: int, definition: CampaignDefinition) -> list[PresendIssue]:
    """Return what the composer warns about in the published design, for example an image that nobody chose."""
    if (template_id := definition.content.template_id) is None:
        return []
    designs = [
        stored
        for stored in (await latest_by_locale(tx, tenant_id, template_id)).values()
        if stored.format is TemplateFormat.BLOCKS
    ]
    if not designs:
        return []
    # Imported only here, because most campaigns need no compiler.
    from mailwright.content.blocks.compile import document_warnings  # noqa: PLC0415

    brand = await load_brand(tx, tenant_id)
    unfinished = [
        presend_issue("UNFINISHED_BLOCK", each, "html", stored.locale)
        for stored in designs
        for each in document_warnings(stored.body, brand, stored.locale)
    ]
    return [*unfinished, *_find_sample_texts(designs)]


def find_sample_links(texts: Mapping[LocalizedContent, str]) -> Iterator[PresendIssue]:
    """Yield an issue for links to the domains for examples, in whatever format the content was written."""
    found: dict[str, str] = {}
    for text, locale in texts.items():
        found |= {link: locale for link in links_of(text.html) if _sample_host(link) and link not in found}
    if found:
        sentence = "1 link goes" if len(found) == 1 else f"{len(found)} links go"
        hosts = " and ".join(sorted({_sample_host(link) for link in found}))
        yield presend_issue("SAMPLE_LINK", f"{sentence} to {hosts}.", "html", next(iter(found.values())))


def _sample_host(link: str) -> str:
    host = _SAMPLE_HOST.fullmatch(host_of(link) or "")
    return "" if host is None else host[1]


def _find_sample_texts(designs: list[StoredTemplate]) -> Iterator[PresendIssue]:
    """Yield an issue for texts of a starter that nobody changed."""
    samples = {
        stored.locale: sum(_text_of(each) in _starter_texts() for each in _parts_of(orjson.loads(stored.body)))
        for stored in designs
    }
    if texts := sum(samples.values()):
        sentence = "1 block still has the text" if texts == 1 else f"{texts} blocks still have the text"
        first = next(locale for locale, number in samples.items() if number)
        yield presend_issue("SAMPLE_TEXT", f"{sentence} of the starter.", "html", first)


@cache
def _starter_texts() -> frozenset[str]:
    documents = [starter.document for starter in list_starters() if starter.kind == "bulk"]
    return frozenset(text for each in _parts_of(documents) if len(text := _text_of(each)) >= _MIN_SAMPLE)


def _text_of(part: dict[str, Any]) -> str:
    return " ".join(LexborHTMLParser(part.get("html") or "").text().split())


def _parts_of(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object in a document, for example its blocks and those in columns."""
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts_of(each)


def _is_blank(document: dict[str, Any]) -> bool:
    return not document.get("mjml") and all(
        block.get("type") in _AROUND or (block.get("type") in {"heading", "text"} and not block.get("html"))
        for block in document.get("blocks", ())
    )
