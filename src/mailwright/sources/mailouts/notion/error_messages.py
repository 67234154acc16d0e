"""Explain Notion's refusals: the problem, and how to fix it in Notion."""

from collections.abc import Mapping
from typing import Any

MAX_QUOTE_LENGTH = 300

# Our code and message by Notion's error code.
_SENTENCES: Mapping[str, tuple[str, str]] = {
    "unauthorized": (
        "NOTION_UNAUTHORIZED",
        "Notion rejected the token. Set NOTION_TOKEN to the secret of your integration.",
    ),
    "restricted_resource": (
        "NOTION_RESTRICTED",
        "The integration lacks permission for {about}. In its settings in Notion, allow it to read, update and insert "
        "content.",
    ),
    "object_not_found": (
        "NOTION_NOT_SHARED",
        "The integration has no access to {about}. Open it in Notion and add the integration under ••• and "
        "Connections, or check the address.",
    ),
    "missing_version": ("NOTION_VERSION", "Notion does not accept this version of its API."),
}


def describe_refusal(status: int, answer: Mapping[str, Any], about: str) -> tuple[str, str]:
    """Return our error code, and a message for the author of the page."""
    code, message = str(answer.get("code")), " ".join(str(answer.get("message") or "").split())[:MAX_QUOTE_LENGTH]
    if code in _SENTENCES:
        ours, sentence = _SENTENCES[code]
        return ours, sentence.format(about=about)
    if code == "validation_error" and "is a database" in message:
        return "NOTION_NOT_A_PAGE", f"In Notion, {about} is a table. Use the address of one of its pages."
    if code == "validation_error" and "archived" in message:
        # The page itself, or a parent of it, may be in the trash.
        return "NOTION_IN_TRASH", f"In Notion, {about} or its parent is in the trash. Restore it there first."
    if code == "validation_error":
        return "NOTION_INVALID", f"Notion rejected the values for {about}: {message or 'no reason given.'}"
    return "NOTION_REFUSED", f"Notion refused {about} with {status} {code}: {message or 'no reason given.'}"
