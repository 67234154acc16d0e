"""Explain Notion's refusals: the problem, and how to fix it in Notion."""

from collections.abc import Mapping
from typing import Any

from mailwright.domain.translation import english_text, lazy_gettext
from mailwright.sources.mailouts.notion.errors import NotionRefused

MAX_QUOTE_LENGTH = 300

# Our code and message by Notion's error code.
_SENTENCES: Mapping[str, tuple[str, str]] = {
    "unauthorized": (
        "NOTION_UNAUTHORIZED",
        lazy_gettext("Notion rejected the token. Set NOTION_TOKEN to the secret of your integration."),
    ),
    "restricted_resource": (
        "NOTION_RESTRICTED",
        lazy_gettext(
            "The integration lacks permission for {about}. In its settings in Notion, allow it to read, update and "
            "insert content."
        ),
    ),
    "object_not_found": (
        "NOTION_NOT_SHARED",
        lazy_gettext(
            "The integration has no access to {about}. Open it in Notion and add the integration under ••• and "
            "Connections, or check the address."
        ),
    ),
    "missing_version": ("NOTION_VERSION", lazy_gettext("Notion does not accept this version of its API.")),
}


def describe_refusal(status: int, answer: Mapping[str, Any], about: str) -> NotionRefused:
    """Return the error for the author of the page."""
    code, message = str(answer.get("code")), " ".join(str(answer.get("message") or "").split())[:MAX_QUOTE_LENGTH]
    reason = message or lazy_gettext("no reason given.")
    if code in _SENTENCES:
        ours, sentence = _SENTENCES[code]
        return NotionRefused(english_text(sentence), code=ours, about=about)
    if code == "validation_error" and "is a database" in message:
        return NotionRefused(
            "In Notion, {about} is a table. Use the address of one of its pages.", code="NOTION_NOT_A_PAGE", about=about
        )
    if code == "validation_error" and "archived" in message:
        # The page itself, or a parent of it, may be in the trash.
        return NotionRefused(
            "In Notion, {about} or its parent is in the trash. Restore it there first.",
            code="NOTION_IN_TRASH",
            about=about,
        )
    if code == "validation_error":
        return NotionRefused(
            "Notion rejected the values for {about}: {reason}", code="NOTION_INVALID", about=about, reason=reason
        )
    return NotionRefused(
        "Notion refused {about} with {status} {refusal}: {reason}",
        about=about,
        status=status,
        refusal=code,
        reason=reason,
    )
