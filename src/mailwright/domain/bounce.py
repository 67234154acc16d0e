"""Bounces: whether a refusal says that an address is dead. Only what is surely dead is called hard."""

import re
from enum import StrEnum
from fnmatch import translate


class BounceKind(StrEnum):
    HARD = "hard"  # the address does not work and will not: no mail goes there again
    SOFT = "soft"  # this mail, this sender or this moment was refused: the address may be well


# A diagnostic is a few lines. Whoever sends more is not explaining any more, and looking at it costs time.
MAX_TEXT = 4_000

# RFC 3463 and the IANA registry. The first pattern that fits decides; None leaves it to the text.
_BY_STATUS: tuple[tuple[str, BounceKind | None], ...] = (
    ("5.1.1", BounceKind.HARD),  # no such mailbox
    ("5.1.2", BounceKind.HARD),  # no such domain
    ("5.1.3", BounceKind.HARD),  # not an address
    ("5.1.6", BounceKind.HARD),  # moved, and nobody knows where
    ("5.1.10", BounceKind.HARD),  # the domain takes no mail (null MX); Exchange: no such recipient
    ("5.2.1", BounceKind.HARD),  # the mailbox is disabled
    ("5.4.4", BounceKind.HARD),  # no host for this domain
    ("5.4.310", BounceKind.HARD),  # Exchange Online: the domain does not exist
    # Servers that are set to be careful say "unknown" with a temporary code, for days.
    ("4.1.1", None),
    # These say where something went wrong and not what; many servers use them for everything.
    ("5.[0-5].0", None),
    ("5.4.1", None),
    ("5.5.[14]", None),
    # Full, too big, content, policy, spam, authentication, routing, and whatever will be registered next.
    ("*", BounceKind.SOFT),
)

# Where a large mailbox provider uses a code in a way of its own, and its words say what it means.
_BY_STATUS_AND_WORDS: tuple[tuple[str, str, BounceKind], ...] = (
    ("5.2.1", r"receiving e?mail (?:at a rate|too quickly)", BounceKind.SOFT),  # Gmail, of a busy reader
    ("5.[12].1", r"over ?quota|mailbox (?:is |)full", BounceKind.SOFT),
    ("5.4.1", r"recipient address rejected: access denied", BounceKind.HARD),  # Exchange Online: not in its directory
    ("5.1.0", r"(?<!sender )address rejected", BounceKind.HARD),  # Cisco's gateways: the same
    ("5.7.1", r"no such user", BounceKind.HARD),  # Yandex
)

# What a server says instead of a code, or beside one that says nothing. Soft goes first: "host not found, try again" is
# not the end of a host, and a blocked sender says nothing about the reader. All of them are words, found in one pass.
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

_EXCEPTIONS = tuple((re.compile(translate(code)), re.compile(said), kind) for code, said, kind in _BY_STATUS_AND_WORDS)
_STATUS = tuple((re.compile(translate(pattern)), kind) for pattern, kind in _BY_STATUS)
_SOFT = re.compile("|".join(_SOFT_WORDS))
_HARD = re.compile("|".join(_HARD_WORDS))


def classify_bounce(status: str | None, reply_code: int | None, text: str) -> BounceKind:
    """Of a refusal that is final. `status` is the enhanced one, as 5.1.1; the text decides where the codes do not."""
    words = " ".join(text[:MAX_TEXT].lower().split())
    if status is not None and (kind := _by_status(status, words)) is not None:
        return kind
    is_temporary = status is None and reply_code is not None and reply_code < 500
    if is_temporary or _SOFT.search(words):
        return BounceKind.SOFT
    return BounceKind.HARD if _HARD.search(words) else BounceKind.SOFT


def _by_status(status: str, words: str) -> BounceKind | None:
    for code, said, kind in _EXCEPTIONS:
        if code.match(status) and said.search(words):
            return kind
    return next(kind for code, kind in _STATUS if code.match(status))
