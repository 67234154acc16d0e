"""Extract status codes and addresses from mail servers' texts, and classify the outcome for each recipient."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from mailwright.domain.address import InvalidAddress, deliverable
from mailwright.domain.bounce import MAX_TEXT, BounceKind, judge_bounce, states_reason
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.events.bounces.model import BouncedRecipient, DsnAction

MAX_DIAGNOSTIC = 1_000

# Characters of all languages, but not the punctuation of Chinese and Japanese texts, which write no space after it.
_CHARACTERS = r"\x80-\u1fff\u2c00-\u2dff\u3040-\ufdff\U00010000-\U0010ffff"
ADDRESS = rf"[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~.\-{_CHARACTERS}]{{1,64}}@[A-Za-z0-9.\-{_CHARACTERS}]{{1,253}}"

_ADDRESS = re.compile(ADDRESS)
_SUBCODES = r"\.\d{1,3}\.\d{1,3}(?!\.?\d)"
_STATUS = re.compile(rf"(?<![\d.])[245]{_SUBCODES}")
_STATUS_AFTER_REPLY = re.compile(rf"(?<![\d.])[245]\d\d[ -][ '\"#(]{{0,3}}([245]{_SUBCODES})")
_REPLY_CODE = re.compile(r"(?<![\w.#/:-])([245][0-5]\d)(?=[ :-]|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+")


_BY_CLASS = {"2": DsnAction.DELIVERED, "4": DsnAction.DELAYED}


@dataclass(frozen=True, slots=True)
class RecipientFields:
    """The statements of a bounce email about one recipient, before classification."""

    address: str | None
    action: DsnAction | None = None
    status: str = ""
    diagnostic: str = ""
    # The human-readable text about this recipient, used if the diagnostic gives no reason.
    explanation: str = ""
    # Other text of the email, for example a notice about a virus. Used if nothing else gives a reason.
    context: str = ""


def classify_recipient(email_identity: str, fields: RecipientFields) -> BouncedRecipient:
    texts = [one_line(text) for text in (fields.diagnostic, fields.explanation, fields.context)]
    reason = next(filter(None, texts), "")
    action = _action(fields)
    # In prose about a failure, read only failure codes, so that "on 250 servers" does not count as a delivery.
    classes = "45" if action in (DsnAction.FAILED, DsnAction.DELAYED) else "245"
    status = _find_status(fields.status, reason, classes)
    reply_code = _find_reply_code(reason, classes) or _find_reply_code(fields.status, classes)
    return BouncedRecipient(
        identity=digest(email_identity, fields.address or "", status or "", action),
        address=fields.address,
        action=action,
        kind=_bounce_kind(action, _judgements(fields.status, status, reply_code, texts)),
        status=status,
        reply_code=reply_code,
        diagnostic=reason[:MAX_DIAGNOSTIC],
    )


def most_telling(texts: Sequence[str]) -> str:
    """Return the first text with a reason in words, or else the first with a code, on one line.

    Return an empty string if no text has either.
    """
    lines = [one_line(text) for text in texts]
    stated = (line for line in lines if states_reason(line))
    coded = (line for line in lines if _find_status("", line, "45") or _find_reply_code(line, "45"))
    return next(stated, None) or next(coded, "")


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def find_address(text: str) -> str | None:
    """Return the deliverable address in text such as `rfc822; <a@example.com>`."""
    match = _ADDRESS.search(text[:MAX_TEXT])
    return _deliverable(match[0]) if match else None


def find_addresses(text: str) -> tuple[str, ...]:
    addresses = (_deliverable(text) for text in _ADDRESS.findall(text[:MAX_TEXT]))
    return tuple(dict.fromkeys(address for address in addresses if address is not None))


def one_line(text: str) -> str:
    """Collapse whitespace and control characters and limit the length."""
    return _CONTROL.sub(" ", text[: 4 * MAX_TEXT]).strip()[:MAX_TEXT]


def _deliverable(text: str) -> str | None:
    try:
        return deliverable(text.strip(".'"))
    except InvalidAddress:
        return None


def _find_status(field: str, diagnostic: str, classes: str) -> str | None:
    """Return the status field. If it is generic (x.0.0), return the more specific status in the diagnostic."""
    stated = _STATUS.search(field)
    if stated and not stated[0].endswith(".0.0"):
        return stated[0]
    quoted = (match[1] for match in _STATUS_AFTER_REPLY.finditer(diagnostic))
    bare = (match[0] for match in _STATUS.finditer(diagnostic))
    specific = next((code for code in (*quoted, *bare) if code[0] in classes), None)
    if stated is None:
        return specific
    return specific if specific and specific[0] == stated[0][0] else stated[0]


def _find_reply_code(text: str, classes: str) -> int | None:
    codes = (match[1] for match in _REPLY_CODE.finditer(text[:MAX_TEXT].replace(";", " ")))
    return next((int(code) for code in codes if code[0] in classes), None)


def _judgements(
    field: str, status: str | None, reply_code: int | None, texts: Sequence[str]
) -> Iterator[BounceKind | None]:
    """Yield the bounce kind that each text implies, most specific first.

    The context counts only if the status field implies no kind.
    """
    *specific, context = texts
    stated = _STATUS.search(field)
    yield from (judge_bounce(status, reply_code, text) for text in specific if text)
    yield judge_bounce(stated[0], None, "") if stated else None
    yield judge_bounce(status, reply_code, context)


def _bounce_kind(action: DsnAction, judgements: Iterable[BounceKind | None]) -> BounceKind | None:
    match action:
        case DsnAction.FAILED:
            return next(filter(None, judgements), BounceKind.SOFT)
        case DsnAction.DELAYED:
            return BounceKind.SOFT
        case DsnAction.DELIVERED | DsnAction.RELAYED | DsnAction.EXPANDED:
            return None
        case _:
            assert_never(action)


def _action(fields: RecipientFields) -> DsnAction:
    """Return the stated action, or the action that the status field implies.

    Text alone never counts as a delivery, and a failure in any field takes precedence over a delivery.
    """
    stated = _STATUS.search(fields.status)
    implied = _BY_CLASS.get(stated[0][0] if stated else "", DsnAction.FAILED)
    action = fields.action or implied
    if action in (DsnAction.FAILED, DsnAction.DELAYED):
        return action
    code = _find_reply_code(fields.diagnostic, "245")
    is_refused = implied is not DsnAction.DELIVERED and stated is not None
    return DsnAction.FAILED if is_refused or (code is not None and code >= 400) else action
