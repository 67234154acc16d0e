"""Classify bounces as hard or soft; a bounce is hard only if the address is certainly invalid."""

import re
from enum import StrEnum
from fnmatch import translate


class BounceKind(StrEnum):
    HARD = "hard"  # The address is permanently invalid and is suppressed.
    SOFT = "soft"  # The message, the sender or the time was refused; the address may be valid.


# A diagnostic is a few lines long. Longer text adds nothing and costs time to search.
MAX_TEXT = 4_000

# Enhanced status codes (RFC 3463, IANA registry), used if the words do not decide. The first matching pattern counts;
# None: the code says where the failure happened, not what failed.
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

# Exceptions for large mailbox providers that use a code in their own way; the text states what they mean.
_BY_STATUS_AND_WORDS: tuple[tuple[str, str, BounceKind], ...] = (
    ("5.4.1", r"recipient address rejected: access denied", BounceKind.HARD),  # Exchange Online: not in the directory
    ("5.1.0", r"(?<!sender )address rejected", BounceKind.HARD),  # Cisco gateways: not in the directory
)

# Words that state a reason which may pass, or which is about the sender, the message or the server.
_SOFT_WORDS = (
    r"black ?-?list|block ?-?list|deny ?-?list|spamhaus|spamcop|\bsorbs\b|\bd?nsbl\b|\brbl\b|reputation",
    r"\bspam\b|spammer|virus|malware|unsolicited|(?:ip|server|sender|message|mail) (?:has been |is |was )?blocked",
    r"rate ?-?limit|at a rate|too (?:quickly|fast|many)|throttl|gr[ea]y ?-?list|try again later|found, try again",
    r"temporar|timed? ?out|deferred|(?:over|out of) ?-?(?:the |disk |its )?quota|quota (?:exceeded|violation)",
    r"exceed\w*[^.;]{0,40}quota|mailbox (?:is |size |)full|(?:in|mail)box full|full mailbox",
    r"insufficient (?:storage|disk|system)",
    r"too (?:large|big|long)|message size|size limit|\bspf\b|\bdkim\b|\bdmarc\b",
    r"sender (?:address|domain|verif|reject|denied|unknown)|of sender|too many hops|(?:mail|message) loop",
)
# Words that suggest such a reason, but also occur by chance. They count only if the code says nothing.
_VAGUE_SOFT_WORDS = (
    r"quota|storage|insufficient|spam|block|polic(?:y|ies)|suspicious|prohibited|content|authenticat|relay access",
    r"relaying|unable to relay|not allowed|loop|protocol|syntax|sequence",
)
# Words that state that the address does not exist.
_HARD_WORDS = (
    r"(?:user|recipient|mailbox|address|account|addressee)(?: name| address|) ?(?:is |)(?:un|not )known",
    r"unknown (?:user|recipient|mailbox|address(?! error)|account|local)",
    r"no such (?:user|recipient|mailbox|address|account|person|local)",
    r"(?:user|recipient|mailbox|address|account)(?: name|) (?:was |is |could |)not (?:be |)found",
    r"address couldn't be found|(?:recipient|mailbox|user|address) not (?:present|listed|recogni[sz]ed)",
    r"name is not recogni[sz]ed|not a (?:valid|known) (?:user|recipient|mailbox|address)|not our customer",
    r"not listed in [^.;]{0,40}(?:director|address book)|user-?(?:id|name) (?:is |)(?:unknown|invalid|not found)",
    r"(?:does|do)(?: not|n't) exist|non-?existent|no (?:mailbox|user|account) (?:here |)by that name",
    r"no longer (?:on|valid|exist|active|employed|works|in use)|invalid (?:final delivery )?user-?id",
    r"(?:invalid|bad) (?:recipient|mailbox|address|destination mailbox|user)|mailbox unavailable",
    r"не существует|не найден|inexistente|n[ãa]o existe|no existe|existiert nicht|n'existe pas|unbekannter empf",
    r"user doesn't have|isn't a (?:user|mailbox)",
)
# Words that state that the domain accepts no email. With a temporary code they may be an outage of its name servers.
_HARD_DOMAIN_WORDS = (
    r"(?:host|domain)(?: name|) ?(?:is |)(?:un|not )known|unknown (?:host|domain)|no such (?:domain|host)|bad domain",
    r"(?:domain|host)(?: name|) (?:was |is |could |)not (?:be |)found|domain \S{1,253} couldn't be found",
    r"invalid domain|unroute?able|no (?:valid |)mx\b|null ?-?mx|(?:has|have) no mx|nxdomain",
    r"no (?:mail|address) exchanger|could not find a gateway",
    r"does ?n[o']t (?:receive|accept) (?:any )?(?:e-?mail|mail)(?! from)",
)

_EXCEPTIONS = tuple(
    (re.compile(translate(code)), re.compile(phrase), kind) for code, phrase, kind in _BY_STATUS_AND_WORDS
)
_STATUS = tuple((re.compile(translate(pattern)), kind) for pattern, kind in _BY_STATUS)
_SOFT = re.compile("|".join(_SOFT_WORDS))
_VAGUE_SOFT = re.compile("|".join(_VAGUE_SOFT_WORDS))
_HARD = re.compile("|".join(_HARD_WORDS))
_HARD_DOMAIN = re.compile("|".join(_HARD_DOMAIN_WORDS))


def classify_bounce(status: str | None, reply_code: int | None, text: str) -> BounceKind:
    """Classify a final rejection: explicit words outrank the codes, because many servers use codes carelessly.

    If the words contradict each other or say nothing, the enhanced status (for example 5.1.1) decides. An unexplained
    rejection counts as soft.
    """
    words = " ".join(text[:MAX_TEXT].lower().split())
    by_code = _by_status(status, words) if status is not None else _by_reply_code(reply_code)
    is_temporary = status.startswith("4") if status is not None else (reply_code or 500) < 500
    is_hard = _HARD.search(words) is not None or (not is_temporary and _HARD_DOMAIN.search(words) is not None)
    is_soft = _SOFT.search(words) is not None or (by_code is None and _VAGUE_SOFT.search(words) is not None)
    if is_hard != is_soft:
        return BounceKind.HARD if is_hard else BounceKind.SOFT
    return by_code or BounceKind.SOFT


def _by_status(status: str, words: str) -> BounceKind | None:
    for code, phrase, kind in _EXCEPTIONS:
        if code.match(status) and phrase.search(words):
            return kind
    return next(kind for code, kind in _STATUS if code.match(status))


def _by_reply_code(reply_code: int | None) -> BounceKind | None:
    return BounceKind.SOFT if reply_code is not None and reply_code < 500 else None
