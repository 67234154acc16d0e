"""Advice on how to fix what the pre-send check reports, by issue code."""

from collections.abc import Mapping
from typing import Final

ADVICE: Final[Mapping[str, str]] = {
    "NO_RECIPIENTS": "Choose another list or segment, or import contacts first.",
    "UNKNOWN_LIST": "Choose another list.",
    "UNKNOWN_SEGMENT": "Choose another segment.",
    "UNKNOWN_TEMPLATE": "Choose another template, or write the email here.",
    "TOO_FEW_FOR_TEST": "Increase the size of the test group, or use fewer variants.",
    "SMALL_AB_TEST": "Increase the size of the test group, or choose the variant to send without a clear result.",
    "UNKNOWN_VARIABLE": "Check the spelling, or set a value under “Variables”.",
    "INVALID_TEMPLATE": "Fix the syntax in that line.",
    "NO_UNSUBSCRIBE_LINK_IN_TEXT": "Add {{ unsubscribe_url }} at the end of the plain text.",
    "EMPTY_SUBJECT": "Enter a short subject.",
    "SUBJECT_TOO_LONG": "Shorten the subject.",
    "LONG_SUBJECT": "Put the important words first.",
    "EMPTY_TEXT": "Add some text, because screen readers and watches show nothing else.",
    "BROKEN_LINK": "Use a full URL that begins with https://.",
    "RELATIVE_LINK": "Use a full URL that begins with https://.",
    "EMPTY_LINK": "Add a URL, or remove the link.",
    "LOCAL_LINK": "Use a public URL.",
    "SHORTENED_LINK": "Use the full URL instead.",
    "MISLEADING_LINK": "Make the link text match its target.",
    "BROKEN_IMAGE": "Upload the image, or use a full URL that begins with https://.",
    "IMAGE_WITHOUT_ALT": "Describe the image in its alt attribute.",
    "INSECURE_IMAGE": "Some email clients block the image. Use an https:// URL.",
    "INLINE_IMAGE": "Upload the image and use its URL.",
    "UNSUPPORTED_ELEMENT": "Use a link or an image instead.",
    "CLIPPED": "Shorten the email, or move a part of it to a web page.",
    "CAPITALS": "Use sentence case.",
    "EXCLAMATION_MARKS": "Use at most one exclamation mark.",
    "PRETENDED_REPLY": "Remove “Re:”.",
}
