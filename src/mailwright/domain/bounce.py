"""Classify bounces as hard or soft; a bounce is hard only if the address is certainly invalid."""

import re
from enum import StrEnum
from fnmatch import translate
from functools import cache, lru_cache

from mailwright.domain.bounce_phrases import ABOUT_SENDER, CLOSED, NO_MX, PASSING, SUGGESTIVE, UNKNOWN_ADDRESS
from mailwright.domain.encoded_words import decode_words
from mailwright.domain.lazy_dataclass import dataclass


class BounceKind(StrEnum):
    HARD = "hard"  # The address is permanently invalid and is suppressed.
    SOFT = "soft"  # Rejected for the message, the sender or a temporary reason; the address may be valid.


# Maximum length of a diagnostic text. Real ones have a few lines, and searching longer text takes time.
MAX_TEXT = 4_000

# Enhanced status codes (RFC 3463, IANA registry), used if the words do not decide. The first matching pattern counts.
# None means that the code states where the failure happened, but not its cause.
_BY_STATUS: tuple[tuple[str, BounceKind | None], ...] = (
    ("5.1.1", BounceKind.HARD),  # no such mailbox
    ("5.1.2", BounceKind.HARD),  # no such domain
    ("5.1.3", BounceKind.HARD),  # not an address
    ("5.1.6", BounceKind.HARD),  # moved without a forwarding address
    ("5.1.10", BounceKind.HARD),  # the domain accepts no email (null MX); Exchange: no such recipient
    ("5.1.351", BounceKind.HARD),  # Exchange Online: unknown recipient
    ("5.2.1", BounceKind.HARD),  # the mailbox is disabled
    ("5.4.4", BounceKind.HARD),  # no host for this domain
    ("5.4.310", BounceKind.HARD),  # Exchange Online: the domain does not exist
    ("4.1.1", None),
    ("[45].[0-5].0", None),
    ("5.4.1", None),
    ("5.5.[14]", None),
    # Mailbox full, message too large, content, policy, spam, authentication, routing and unknown codes.
    ("*", BounceKind.SOFT),
)

# Exceptions for large mailbox providers that use a code with another meaning, recognized by the text.
_BY_STATUS_AND_WORDS: tuple[tuple[str, str, BounceKind], ...] = (
    ("5.4.1", r"recipient address rejected: access denied", BounceKind.HARD),  # Exchange Online: not in the directory
    ("5.1.0", r"(?<!sender )(?:address|recipient) rejected", BounceKind.HARD),  # Cisco gateways: not in the directory
)

_EXCEPTIONS = tuple(
    (re.compile(translate(code)), re.compile(phrase), kind) for code, phrase, kind in _BY_STATUS_AND_WORDS
)
_STATUS = tuple((re.compile(translate(pattern)), kind) for pattern, kind in _BY_STATUS)

# Addresses are removed before the search, because they may contain any word: nospam@full.example.
_ADDRESS = re.compile(r"[<\"']?[^\s<>@:;,()\"'\[\]]{1,64}@[^\s<>@:;,()\"'\[\]]{1,253}[>\"']?")
# A link may contain any word as well.
_LINK = re.compile(r"\bhttps?://[^\s>\"')\]]{1,500}")
# A reason as a name of a program: err_no_such_user, SenderNotVerified.
_IDENTIFIER = re.compile(r"\b[A-Za-z]{1,30}(?:_[A-Za-z]{1,30}){1,8}\b|\b[A-Z]?[a-z]{2,30}(?:[A-Z][a-z]{2,30}){1,8}\b")
# Names of rules and figures, which say nothing about this recipient: UnknownUserRatio.
_RULE = re.compile(r"rate|ratio|limit|polic|filter|rule|check|senders", re.IGNORECASE)
_WORD_START = re.compile(r"_|(?<=[a-z])(?=[A-Z])")
_HOST = re.compile(r"(?<!\S)[^\s\[]{1,255}\[[0-9a-f.:]{2,45}\]")


def classify_bounce(status: str | None, reply_code: int | None, text: str) -> BounceKind:
    """Classify a final rejection; an unexplained one counts as soft."""
    return judge_bounce(status, reply_code, text) or BounceKind.SOFT


def judge_bounce(status: str | None, reply_code: int | None, text: str) -> BounceKind | None:
    """Classify a final rejection by its words, then by its codes, because many servers use codes carelessly.

    The enhanced status (for example 5.1.1) decides if the words contradict each other or state no reason. Return None
    if the rejection is unexplained.
    """
    found = _find_phrases(text[:MAX_TEXT])
    by_code = _by_status(status, found.words) if status is not None else _by_reply_code(reply_code)
    is_temporary = status.startswith("4") if status is not None else (reply_code or 500) < 500
    if found.is_about_sender:
        return BounceKind.SOFT
    if found.is_unknown:
        return (by_code or BounceKind.SOFT) if found.is_passing else BounceKind.HARD
    is_passing = found.is_passing or (found.is_suggestive and (by_code is None or not found.is_closed))
    if found.is_closed and not is_temporary and not is_passing:
        return BounceKind.HARD
    return BounceKind.SOFT if is_passing else by_code


def states_reason(text: str) -> bool:
    """Return whether the text explicitly states the reason for a bounce."""
    found = _find_phrases(text[:MAX_TEXT])
    return found.is_unknown or found.is_closed or found.is_passing or found.is_about_sender


def mentions_sender(text: str) -> bool:
    """Return whether the text states that the server rejects the sender, so that it says nothing about the address."""
    return _find_phrases(text[:MAX_TEXT]).is_about_sender


def states_other_reason(text: str) -> bool:
    """Return whether the text states only reasons that a valid address has too, such as its sender or a full mailbox.

    A text that also states that the address is invalid does not count.
    """
    found = _find_phrases(text[:MAX_TEXT])
    is_possible = found.is_passing or (found.is_suggestive and not found.is_closed)
    return found.is_about_sender or (is_possible and not found.is_unknown)


def states_no_mx(text: str) -> bool:
    """Return whether the text states that the domain has no mail server, and no temporary reason."""
    found = _find_phrases(text[:MAX_TEXT])
    return found.has_no_mx and not found.is_passing


@dataclass(frozen=True, slots=True)
class _Phrases:
    words: str
    is_unknown: bool
    is_closed: bool
    is_passing: bool
    is_about_sender: bool
    has_no_mx: bool
    is_suggestive: bool


@lru_cache(maxsize=256)  # Cached because a report may repeat one text for a thousand recipients.
def _find_phrases(text: str) -> _Phrases:
    decoded = _split_identifiers(decode_words(text))
    words = " ".join(decoded.lower().replace("\u2019", "'").split())
    words = _HOST.sub("host", _ADDRESS.sub("address", words))
    texts = (*[words] * 5, _LINK.sub("link", words))  # only the suggestive phrases
    patterns = zip(_phrase_patterns(), texts, strict=True)
    return _Phrases(words, *(each.search(text) is not None for each, text in patterns))


def _split_identifiers(text: str) -> str:
    """Add the words of each identifier, outside of addresses and links, as a sentence at the end."""
    identifiers = _IDENTIFIER.findall(_LINK.sub(" ", _ADDRESS.sub(" ", text)))
    return ". ".join((text, *(_WORD_START.sub(" ", each) for each in identifiers if not _RULE.search(each))))


@cache  # Compiled on first use, because this takes as long as importing a database driver and few commands need it.
def _phrase_patterns() -> list[re.Pattern[str]]:
    groups = (UNKNOWN_ADDRESS, CLOSED, PASSING, ABOUT_SENDER, NO_MX, SUGGESTIVE)
    return [re.compile("|".join(phrases)) for phrases in groups]


def _by_status(status: str, words: str) -> BounceKind | None:
    for code, phrase, kind in _EXCEPTIONS:
        if code.match(status) and phrase.search(words):
            return kind
    return next(kind for code, kind in _STATUS if code.match(status))


def _by_reply_code(reply_code: int | None) -> BounceKind | None:
    return BounceKind.SOFT if reply_code is not None and reply_code < 500 else None
