"""Advice: what to do about what a mail's preflight finds, for the person who wrote it, where that does not say so."""

from collections.abc import Mapping
from typing import Final

ADVICE: Final[Mapping[str, str]] = {
    "NO_RECIPIENTS": "Choose another list or segment, or bring people in first.",
    "UNKNOWN_LIST": "Choose a list that exists.",
    "UNKNOWN_SEGMENT": "Choose a segment that exists.",
    "UNKNOWN_TEMPLATE": "Choose a template that exists, or write the text here.",
    "TOO_FEW_FOR_TEST": "Try the versions with a larger share, or with fewer of them.",
    "UNKNOWN_VARIABLE": "Check its spelling, or give it a value under “Variables”.",
    "INVALID_TEMPLATE": "The text cannot be read as it stands: look at the line that is named.",
    "NO_UNSUBSCRIBE_LINK_IN_TEXT": "Write {{ unsubscribe_url }} at the end of the text.",
    "EMPTY_SUBJECT": "Say in a few words what it is about.",
    "SUBJECT_TOO_LONG": "Make it shorter.",
    "LONG_SUBJECT": "Put the important words first.",
    "EMPTY_TEXT": "Add some words: screen readers and watches show only those.",
    "BROKEN_LINK": "Write a whole address, with https://.",
    "RELATIVE_LINK": "Write a whole address, with https://.",
    "EMPTY_LINK": "Give it an address, or take it out.",
    "LOCAL_LINK": "Write an address of the public web.",
    "SHORTENED_LINK": "Write the address itself.",
    "MISLEADING_LINK": "Let the words name where it leads.",
    "BROKEN_IMAGE": "Upload it, or write a whole address, with https://.",
    "IMAGE_WITHOUT_ALT": "Say in its alt text what it shows.",
    "INSECURE_IMAGE": "Some mail programs do not show it: write its address with https://.",
    "INLINE_IMAGE": "Upload it and name it.",
    "UNSUPPORTED_ELEMENT": "Use a link or an image instead.",
    "CLIPPED": "Make it shorter, or move a part behind a link.",
    "CAPITALS": "Write it as you would say it.",
    "EXCLAMATION_MARKS": "One is enough.",
    "PRETENDED_REPLY": "Leave “Re:” to replies.",
}
