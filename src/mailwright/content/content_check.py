"""The pre-send check of content, the same for the composer, templates, campaigns, the API and the command line."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Final

import orjson
from selectolax.lexbor import LexborHTMLParser

from mailwright.content.blocks.starters import list_starters
from mailwright.content.brand import Brand
from mailwright.content.brand_store import parse_brand
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import (
    PresendContext,
    PresendIssue,
    errors_first,
    presend_issue,
    run_presend_checks,
)
from mailwright.content.template_store import StoredTemplate

# Blocks of a new design that authors do not edit.
_AROUND: Final = frozenset({"header", "footer", "divider", "spacer"})
# Shorter texts of a starter, such as a greeting, may be right as they are.
_MIN_SAMPLE: Final = 40


def check_content(stored: StoredTemplate, brand: Brand, context: PresendContext) -> list[PresendIssue]:
    """Return all issues of a version or a draft, errors first. `brand` is the current brand kit of the tenant."""
    issues = run_presend_checks(subject=stored.subject, html=stored.html, text=stored.text, context=context)
    return errors_first([*check_design(stored, brand), *issues])


def is_transactional(stored: StoredTemplate) -> bool:
    """Return whether the footer of a design is for transactional email, which needs no unsubscribe link."""
    blocks = orjson.loads(stored.body).get("blocks", ()) if stored.format is TemplateFormat.BLOCKS else ()
    return any(block.get("type") == "footer" and block.get("transactional") is True for block in blocks)


def check_design(stored: StoredTemplate, brand: Brand) -> list[PresendIssue]:
    """Return the issues of the blocks of a design, with the brand kit that its HTML was made with."""
    if stored.format is not TemplateFormat.BLOCKS:
        return []
    document = orjson.loads(stored.body)
    used = parse_brand(stored.brand) or brand
    issues = [] if _is_blank(document) else list(_block_issues(stored, used))
    if used != brand:
        issues = _with_brand_change(stored, used, brand, issues)
    if _is_blank(document):
        issues.append(presend_issue("BLANK_DESIGN", "The email has no content yet.", "html"))
    return [replace(issue, locale=stored.locale) for issue in (*issues, *_sample_texts(document))]


def _with_brand_change(
    stored: StoredTemplate, used: Brand, brand: Brand, issues: list[PresendIssue]
) -> list[PresendIssue]:
    """Add an issue if the version has an outdated brand kit, and drop the issues that publishing it again would fix."""
    # Imported only here, because most callers need no compiler.
    from mailwright.content.blocks.compile import write_mjml  # noqa: PLC0415

    before, after = (write_mjml(stored.body, each, stored.locale).mjml for each in (used, brand))
    if before == after:
        return issues
    left = set(_block_issues(stored, brand))
    solved = {issue.code for issue in issues if issue not in left}
    more = ", and its header is empty" if "EMPTY_HEADER" in solved else ""
    changed = presend_issue("BRAND_CHANGED", f"The published version has an earlier brand kit{more}.", "html")
    return [changed, *(issue for issue in issues if issue in left)]


def _block_issues(stored: StoredTemplate, brand: Brand) -> Iterator[PresendIssue]:
    """Yield the warnings of the compiler, each sentence once with its blocks."""
    from mailwright.content.blocks.compile import write_mjml  # noqa: PLC0415

    found: dict[tuple[str, str], list[str]] = {}
    for warning in write_mjml(stored.body, brand, stored.locale).warnings:
        found.setdefault((warning.code, warning.message), []).append(warning.block_id)
    for (code, message), blocks in found.items():
        more = f" ({len(blocks)} blocks)" if len(blocks) > 1 else ""
        yield presend_issue(code, f"{message.removesuffix('.')}{more}.", "html", blocks=tuple(blocks))


def _sample_texts(document: dict[str, Any]) -> Iterator[PresendIssue]:
    """Yield an issue for texts of a starter that nobody changed."""
    samples = [each.get("id") for each in _parts_of(document) if _text_of(each) in _starter_texts()]
    if samples:
        sentence = "1 block still has the text" if len(samples) == 1 else f"{len(samples)} blocks still have the text"
        blocks = tuple(each for each in samples if isinstance(each, str))
        yield presend_issue("SAMPLE_TEXT", f"{sentence} of the starter.", "html", blocks=blocks)


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
