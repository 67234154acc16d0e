"""Decide whether a rejection is about the address or about the sender, the content or the server.

Only rejections about the address and unexplained permanent ones count as soft bounces: a bad reputation says nothing
about the recipient.
"""

import re

# Policies about senders and content, or rate limits. These phrases override the status code.
_ABOUT_US = re.compile(
    r"spam|virus|malware|phish|black ?list|block ?list|deny ?list|blocked|reputation|polic(?:y|ies)|suspicious|content"
    r"|\bspf\b|\bdkim\b|\bdmarc\b|authenticat|relay|grey ?list|\brate\b|throttl|too many|too (?:large|big|long)"
    r"|message size|size limit|attachment|unsolicited|complain"
)
# RFC 3463: mailbox (except x.2.3, message too large), address, and a host that stayed unreachable. Content (6),
# policy (7), protocol (5) and mail system (3) codes are not about the address.
_ABOUT_ADDRESS = re.compile(r"[45]\.(?:1\.(?!7\b|8\b)\d+|2\.(?!3\b)\d+|4\.[147])")
_MAILBOX_PHRASES = re.compile(
    r"mailbox (?:is |size |)full|(?:in|mail)box full|over ?quota|quota exceeded|mailbox unavailable"
)


def is_about_address(status: str | None, text: str, *, is_permanent: bool = False) -> bool:
    """Return whether a rejection that is not a hard bounce counts as a soft bounce.

    `is_permanent`: the server will never accept the message. Without a reason this counts; without a status code, the
    text of a temporary rejection must mention the mailbox.
    """
    normalized = " ".join(text[:4_000].lower().split())
    if _ABOUT_US.search(normalized):
        return False
    if status and not status.endswith(".0.0"):
        return _ABOUT_ADDRESS.fullmatch(status.strip()) is not None
    return is_permanent or _MAILBOX_PHRASES.search(normalized) is not None
