"""The diagnosis: codes and addresses picked out of what servers write, and a recipient made of them."""

import hashlib
import re
from dataclasses import dataclass
from typing import assert_never

from mailwright.domain.address import InvalidAddress, deliverable
from mailwright.domain.bounce import MAX_TEXT, BounceKind, classify_bounce
from mailwright.events.bounces.model import BouncedRecipient, DsnAction

MAX_DIAGNOSTIC = 1_000

ADDRESS = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.\-\x80-\U0010ffff]{1,64}@[A-Za-z0-9.\-\x80-\U0010ffff]{1,253}"

_ADDRESS = re.compile(ADDRESS)
_CODE = r"[245]\.\d{1,3}\.\d{1,3}(?!\.?\d)"
_STATUS = re.compile(rf"(?<![\d.]){_CODE}")
_STATUS_AFTER_REPLY = re.compile(rf"(?<![\d.])[245]\d\d[ -][ '\"#(]{{0,3}}({_CODE})")
_REPLY_CODE = re.compile(r"(?<![\w.#/:-])([245][0-5]\d)(?=[ :-]|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\s]+")


@dataclass(frozen=True, slots=True)
class RecipientFields:
    """What a letter says about one reader, before it is judged."""

    address: str | None
    action: DsnAction | None = None
    status: str = ""
    diagnostic: str = ""
    # What the letter tells people about this reader. It is asked only where there is no diagnostic.
    explanation: str = ""


def classify_recipient(letter_identity: str, finding: RecipientFields) -> BouncedRecipient:
    diagnostic = one_line(finding.diagnostic)
    reason = diagnostic or one_line(finding.explanation)
    status = _status(finding.status, reason)
    reply_code = _reply_code(reason) or _reply_code(finding.status)
    action = _action(finding.action, status, reply_code)
    return BouncedRecipient(
        identity=digest(letter_identity, finding.address or "", status or "", action),
        address=finding.address,
        action=action,
        kind=_kind(action, status, reply_code, reason),
        status=status,
        reply_code=reply_code,
        diagnostic=reason[:MAX_DIAGNOSTIC],
    )


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def find_address(text: str) -> str | None:
    """The address in `rfc822; <a@example.com>` and its relatives, if it is one that mail can be sent to."""
    found = _ADDRESS.search(text[:MAX_TEXT])
    return _valid(found[0]) if found else None


def find_addresses(text: str) -> tuple[str, ...]:
    found = (_valid(each) for each in _ADDRESS.findall(text[:MAX_TEXT]))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def one_line(text: str) -> str:
    """Fit for a log line and a table cell."""
    return _CONTROL.sub(" ", text[: 4 * MAX_TEXT]).strip()[:MAX_TEXT]


def _valid(text: str) -> str | None:
    try:
        return deliverable(text.strip(".'"))
    except InvalidAddress:
        return None


def _status(field: str, diagnostic: str) -> str | None:
    """The status field, unless it only says that something is wrong and the server itself was more exact."""
    stated = _STATUS.search(field)
    if stated and not stated[0].endswith(".0.0"):
        return stated[0]
    quoted = _STATUS_AFTER_REPLY.search(diagnostic)
    said = quoted[1] if quoted else None
    if said is None and (bare := _STATUS.search(diagnostic)):
        said = bare[0]
    if stated is None:
        return said
    return said if said and said[0] == stated[0][0] else stated[0]


def _reply_code(text: str) -> int | None:
    found = _REPLY_CODE.search(text[:MAX_TEXT].replace(";", " "))
    return int(found[1]) if found else None


def _kind(action: DsnAction, status: str | None, reply_code: int | None, reason: str) -> BounceKind | None:
    match action:
        case DsnAction.FAILED:
            return classify_bounce(status, reply_code, reason)
        case DsnAction.DELAYED:
            return BounceKind.SOFT
        case DsnAction.DELIVERED | DsnAction.RELAYED | DsnAction.EXPANDED:
            return None
        case _:
            assert_never(action)


def _action(stated: DsnAction | None, status: str | None, reply_code: int | None) -> DsnAction:
    first_digit = status[0] if status else str(reply_code or "")[:1]
    match stated, first_digit:
        case DsnAction.FAILED | None, "2":
            return DsnAction.DELIVERED
        case None, "4":
            return DsnAction.DELAYED
        case None, _:
            return DsnAction.FAILED
        case action, _:
            return action
