"""Find the author of an email. Many programs write the From header against the rules, so any syntax is accepted."""

import re
from collections.abc import Iterator
from typing import Final

from mailwright.content.raw import readable_line
from mailwright.domain import address
from mailwright.events.bounces.diagnosis import find_address
from mailwright.events.bounces.email_parts import EmailHeaders

MAX_NAME: Final = 100
# Headers with the author, most reliable first.
_FIELDS: Final = ("from", "sender", "reply-to", "return-path")
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_COMMENT: Final = re.compile(r"\(([^()]*)\)")
_BRACKETS: Final = re.compile(r"<([^<>]*)>")
# Characters around a name that belong to the syntax of mailboxes and groups.
_SYNTAX: Final = " \t,;:\"'<>[]"


def find_author(headers: EmailHeaders) -> tuple[str | None, str | None]:
    """Return the name and the address of the first author. Both are None if no header has an address."""
    for field in _FIELDS:
        for mailbox in _mailboxes(headers.first(field)):
            if (found := _address(mailbox)) is not None:
                return _name(mailbox, found), address.deliverable(found)
    return None, None


def _mailboxes(value: str) -> Iterator[str]:
    """Split a header at commas and semicolons. Join parts without an address, because a name may have a comma."""
    # Quoted text and comments are hidden with characters that separate nothing, so that the positions stay.
    hidden = _COMMENT.sub(_hide, _QUOTED.sub(_hide, value))
    start = 0
    for separator in re.finditer(r"[,;]|$", hidden):
        if "@" in hidden[start : separator.start()]:
            yield value[start : separator.start()]
            start = separator.end()


def _hide(found: re.Match[str]) -> str:
    return "_" * len(found[0])


def _address(mailbox: str) -> str | None:
    """Return the address in angle brackets, otherwise the first one outside quotes and comments."""
    plain = _COMMENT.sub(" ", _QUOTED.sub(" ", mailbox))
    candidates = [address.trim(each) for each in _BRACKETS.findall(plain)]
    for each in candidates:
        try:
            return address.deliverable(each)
        except address.InvalidAddress:
            continue
    return find_address(plain)


def _name(mailbox: str, found: str) -> str | None:
    """Return the text around the address, otherwise the comment."""
    name, email = address.split_mailbox(mailbox)
    if name is None or not _is_same(email, found):
        outside = _BRACKETS.sub(" ", _COMMENT.sub(" ", mailbox)).replace(found, " ")
        name = outside.strip(_SYNTAX) or " ".join(_COMMENT.findall(mailbox))
    return readable_line(name)[:MAX_NAME] or None


def _is_same(email: str, found: str) -> bool:
    try:
        return address.deliverable(email) == found
    except address.InvalidAddress:
        return False
