"""Notion's refusals in our words: what is wrong, and what somebody should do about it there."""

from collections.abc import Mapping
from typing import Any

MAX_QUOTE_LENGTH = 300

# By Notion's own code. The sentence begins with what was asked for.
_SENTENCES: Mapping[str, tuple[str, str]] = {
    "unauthorized": (
        "NOTION_UNAUTHORIZED",
        "Notion does not know our token: set NOTION_TOKEN to the secret of your integration.",
    ),
    "restricted_resource": (
        "NOTION_RESTRICTED",
        "The integration may not do this with {about}: in its settings in Notion, allow it to read, update and insert "
        "content.",
    ),
    "object_not_found": (
        "NOTION_NOT_SHARED",
        "Notion does not show us {about}: open it in Notion and add your integration under ••• and Connections, or "
        "check its address.",
    ),
    "missing_version": ("NOTION_VERSION", "Notion does not take our version of its API."),
}


def sentence_for(status: int, answer: Mapping[str, Any], about: str) -> tuple[str, str]:
    """Our code, and a sentence for the person who wrote the page."""
    code, message = str(answer.get("code")), " ".join(str(answer.get("message") or "").split())[:MAX_QUOTE_LENGTH]
    if code in _SENTENCES:
        ours, sentence = _SENTENCES[code]
        return ours, sentence.format(about=about)
    if code == "validation_error" and "is a database" in message:
        return "NOTION_NOT_A_PAGE", f"In Notion, {about} is a table: give the address of one of its pages."
    if code == "validation_error" and "archived" in message:
        # Also where the page itself is not: what it stands in may be.
        return "NOTION_IN_TRASH", f"In Notion, {about} or what it stands in is in the trash: restore it there first."
    if code == "validation_error":
        return "NOTION_INVALID", f"Notion does not take what we said of {about}: {message or 'it gives no reason.'}"
    return "NOTION_REFUSED", f"Notion refuses {about} with {status} {code}: {message or 'it gives no reason.'}"
