"""Classify bounces as hard or soft; a bounce is hard only if the address is certainly invalid."""

import re
from enum import StrEnum
from fnmatch import translate


class BounceKind(StrEnum):
    HARD = "hard"  # The address is permanently invalid and is suppressed.
    SOFT = "soft"  # The message, the sender or the time was refused; the address may be valid.


# A diagnostic is a few lines long. Longer text adds nothing and costs time to search.
MAX_TEXT = 4_000

# Enhanced status codes (RFC 3463, IANA registry). The first matching pattern decides; with None, the text decides.
_BY_STATUS: tuple[tuple[str, BounceKind | None], ...] = (
    ("5.1.1", BounceKind.HARD),  # no such mailbox
    ("5.1.2", BounceKind.HARD),  # no such domain
    ("5.1.3", BounceKind.HARD),  # not an address
    ("5.1.6", BounceKind.HARD),  # moved without a forwarding address
    ("5.1.10", BounceKind.HARD),  # the domain accepts no email (null MX); Exchange: no such recipient
    ("5.2.1", BounceKind.HARD),  # the mailbox is disabled
    ("5.4.4", BounceKind.HARD),  # no host for this domain
    ("5.4.310", BounceKind.HARD),  # Exchange Online: the domain does not exist
    # Cautious servers report "user unknown" with a temporary code for days.
    ("4.1.1", None),
    # These codes say where the failure happened, not what failed; many servers use them for everything.
    ("5.[0-5].0", None),
    ("5.4.1", None),
    ("5.5.[14]", None),
    # Mailbox full, message too large, content, policy, spam, authentication, routing and unknown codes.
    ("*", BounceKind.SOFT),
)

# Exceptions for large mailbox providers that use a code in their own way; the text states what they mean.
_BY_STATUS_AND_WORDS: tuple[tuple[str, str, BounceKind], ...] = (
    ("5.2.1", r"receiving e?mail (?:at a rate|too quickly)", BounceKind.SOFT),  # Gmail: the recipient receives too much
    ("5.[12].1", r"over ?quota|mailbox (?:is |)full", BounceKind.SOFT),
    ("5.4.1", r"recipient address rejected: access denied", BounceKind.HARD),  # Exchange Online: not in the directory
    ("5.1.0", r"(?<!sender )address rejected", BounceKind.HARD),  # Cisco gateways: not in the directory
    ("5.7.1", r"no such user", BounceKind.HARD),  # Yandex
)

# Phrases that servers use without a code or with a generic one. Soft phrases are checked first: "host not found, try
# again" does not mean that the host is gone, and a blocked sender says nothing about the recipient.
_SOFT_WORDS = (
    r"try again later|found, try again|temporar|timed? ?out|greylist|too many|rate limit|deferred",
    r"quota|mailbox (?:is |size |)full|(?:in|mail)box full|storage|insufficient",
    r"too (?:large|big|long)|message size|size limit",
    r"spam|virus|block|black ?list|deny ?list|reputation|polic(?:y|ies)|suspicious|prohibited|content",
    r"\bspf\b|\bdkim\b|\bdmarc\b|authenticat|relay access|relaying|unable to relay|not allowed",
    r"sender (?:address|domain|verif|reject|denied|unknown)|of sender",
    r"loop|too many hops|protocol|syntax|sequence",
)
_HARD_WORDS = (
    r"(?:user|recipient|mailbox|address|account|host|domain|addressee)(?: name| address|) ?(?:is |)(?:un|not )known",
    r"unknown (?:user|recipient|mailbox|address|account|local|host|domain)",
    r"no such (?:user|recipient|mailbox|address|account|person|domain|host|local)",
    r"(?:user|recipient|mailbox|address|account|domain|host)(?: name|) (?:was |is |could |)not (?:be |)found",
    r"address couldn't be found|(?:recipient|mailbox|user|address) not (?:present|listed|recogni[sz]ed)",
    r"name is not recogni[sz]ed|not a (?:valid|known) (?:user|recipient|mailbox|address)|not our customer",
    r"does(?: not|n't) exist|non-?existent|no mailbox (?:here |)by that name|no longer (?:on|valid|exist|active)",
    r"(?:invalid|bad) (?:recipient|mailbox|address|domain|destination mailbox|user)|mailbox unavailable",
    r"не существует|не найден|inexistente|n[ãa]o existe|no existe|existiert nicht|n'existe pas|unbekannter empf",
    r"user doesn't have|isn't a (?:user|mailbox)|nxdomain|null mx|does ?n[o']t (?:receive|accept) (?:e-?mail|mail)",
)

_EXCEPTIONS = tuple(
    (re.compile(translate(code)), re.compile(phrase), kind) for code, phrase, kind in _BY_STATUS_AND_WORDS
)
_STATUS = tuple((re.compile(translate(pattern)), kind) for pattern, kind in _BY_STATUS)
_SOFT = re.compile("|".join(_SOFT_WORDS))
_HARD = re.compile("|".join(_HARD_WORDS))


def classify_bounce(status: str | None, reply_code: int | None, text: str) -> BounceKind:
    """Classify a final rejection by its enhanced status (for example 5.1.1), or by its text if the codes do not decide.

    An unexplained rejection counts as soft.
    """
    words = " ".join(text[:MAX_TEXT].lower().split())
    if status is not None and (kind := _by_status(status, words)) is not None:
        return kind
    is_temporary = status is None and reply_code is not None and reply_code < 500
    if is_temporary or _SOFT.search(words):
        return BounceKind.SOFT
    return BounceKind.HARD if _HARD.search(words) else BounceKind.SOFT


def _by_status(status: str, words: str) -> BounceKind | None:
    for code, phrase, kind in _EXCEPTIONS:
        if code.match(status) and phrase.search(words):
            return kind
    return next(kind for code, kind in _STATUS if code.match(status))
