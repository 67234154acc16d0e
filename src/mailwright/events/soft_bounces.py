"""Soft bounces: whether a refusal for now says something about the address, or only about us, our mail or the moment.

Only the first are counted: a reader whose server dislikes our reputation or our content may be well.
"""

import re

# Somebody's rules about senders and contents, or our pace. Where these are spoken of, no code is asked.
_ABOUT_US = re.compile(
    r"spam|virus|malware|phish|black ?list|block ?list|deny ?list|blocked|reputation|polic(?:y|ies)|suspicious|content"
    r"|\bspf\b|\bdkim\b|\bdmarc\b|authenticat|relay|grey ?list|\brate\b|throttl|too many|too (?:large|big|long)"
    r"|message size|size limit|attachment|unsolicited|complain"
)
# RFC 3463: the mailbox itself (but not 2.3, a mail that is too large for it), the address, and a host that cannot be
# reached until everybody gave up. Content (6), policy (7), protocol (5) and the servers' own troubles (3) are not his.
_ABOUT_ADDRESS = re.compile(r"[45]\.(?:1\.(?!7\b|8\b)\d+|2\.(?!3\b)\d+|4\.[147])")
_SAID = re.compile(r"mailbox (?:is |size |)full|(?:in|mail)box full|over ?quota|quota exceeded|mailbox unavailable")


def is_about_address(status: str | None, text: str) -> bool:
    """Of a refusal that is not the end of the address. What is said without a code must speak of the mailbox."""
    words = " ".join(text[:4_000].lower().split())
    if _ABOUT_US.search(words):
        return False
    if status and not status.endswith(".0.0"):
        return _ABOUT_ADDRESS.fullmatch(status.strip()) is not None
    return _SAID.search(words) is not None
