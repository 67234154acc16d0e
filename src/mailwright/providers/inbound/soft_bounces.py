"""Decide whether a rejection is about the address or about the sender, the content or the server.

Only rejections about the address, and permanent rejections without a reason, count as soft bounces. Others, for example
because of the sender's reputation, say nothing about the recipient.
"""

import re

from mailwright.domain.bounce import mentions_sender, states_no_mx, states_other_reason
from mailwright.domain.report import ContactVerdict

# Phrases about the sender, the content or rate limits. They override the status code.
_ABOUT_US = re.compile(
    r"spam|virus|malware|phish|black ?list|block ?list|deny ?list|blocked|reputation|polic(?:y|ies)|suspicious|content"
    r"|\bspf\b|\bdkim\b|\bdmarc\b|authenticat|relay|grey ?list|\brate\b|throttl|too many|too (?:large|big|long)"
    r"|message size|size limit|attachment|unsolicited|complain"
)
# Status codes (RFC 3463) about the address: mailbox (except x.2.3, message too large), address and unreachable host.
# Codes about content (6), policy (7), protocol (5) and the mail system (3) are not about the address.
_ABOUT_ADDRESS = re.compile(r"[45]\.(?:1\.(?!7\b|8\b)\d+|2\.(?!3\b)\d+|4\.[147])")
_MAILBOX_PHRASES = re.compile(
    r"mailbox (?:is |size |)full|(?:in|mail)box full|over ?quota|quota exceeded|mailbox unavailable"
)


def is_about_address(status: str | None, text: str, *, is_permanent: bool = False) -> bool:
    """Return whether a rejection that is not a hard bounce counts as a soft bounce.

    `is_permanent` is true if the server will never accept the message; such a rejection counts even without a reason. A
    temporary rejection without a status code counts only if its text mentions the mailbox.
    """
    normalized = " ".join(text[:4_000].lower().split())
    if _ABOUT_US.search(normalized) or mentions_sender(normalized):
        return False
    if status and not status.endswith(".0.0"):
        return _ABOUT_ADDRESS.fullmatch(status.strip()) is not None
    return is_permanent or _MAILBOX_PHRASES.search(normalized) is not None


def correct_verdict(verdict: ContactVerdict, text: object) -> ContactVerdict:
    """Correct a provider's verdict about a bounce with the words of the server, because providers follow its codes.

    A rejected sender or content says nothing about the address, a full mailbox is not permanent, and a domain without a
    mail server is not a temporary failure.
    """
    words = text if isinstance(text, str) else ""
    if verdict is ContactVerdict.HARD_BOUNCE and states_other_reason(words):
        return ContactVerdict.SOFT_BOUNCE if is_about_address(None, words) else ContactVerdict.NOTHING
    if verdict is ContactVerdict.SOFT_BOUNCE and mentions_sender(words):
        return ContactVerdict.NOTHING
    if verdict in (ContactVerdict.NOTHING, ContactVerdict.SOFT_BOUNCE) and states_no_mx(words):
        return ContactVerdict.HARD_BOUNCE
    return verdict
