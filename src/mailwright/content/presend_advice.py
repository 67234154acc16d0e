"""How to fix the issues that the pre-send checks of content report, by issue code."""

from collections.abc import Mapping
from typing import Final

from mailwright.domain.translation import lazy_gettext

ADVICE: Final[Mapping[str, str]] = {
    "BLANK_DESIGN": lazy_gettext("Write the email and choose “Publish”."),
    "BRAND_CHANGED": lazy_gettext("Publish the template again to use the current one."),
    "EMPTY_HEADER": lazy_gettext("Set a logo or a name in the brand kit, or delete the block."),
    "UNKNOWN_VARIABLE": lazy_gettext("Check the spelling, or set a value under “Variables”."),
    "UNKNOWN_SEGMENT": lazy_gettext("Choose another segment, or create this one."),
    "INVALID_TEMPLATE": lazy_gettext("Fix the syntax in that line."),
    "NO_UNSUBSCRIBE_LINK_IN_TEXT": lazy_gettext(
        "Add {variable} at the end of the plain text.", variable="{{ unsubscribe_url }}"
    ),
    "NO_POSTAL_ADDRESS": lazy_gettext("Set the postal address under Settings → Sender."),
    "EMPTY_SUBJECT": lazy_gettext("Enter a short subject."),
    "SUBJECT_TOO_LONG": lazy_gettext("Shorten the subject."),
    "LONG_SUBJECT": lazy_gettext("Put the important words first."),
    "EMPTY_TEXT": lazy_gettext("Add some text, because screen readers and watches show nothing else."),
    "BROKEN_LINK": lazy_gettext("Use a full URL that begins with https://."),
    "RELATIVE_LINK": lazy_gettext("Use a full URL that begins with https://."),
    "EMPTY_LINK": lazy_gettext("Add a URL, or remove the link."),
    "LOCAL_LINK": lazy_gettext("Use a public URL."),
    "PERSONAL_LINK": lazy_gettext("Copied from a sent email: everyone would act as that recipient."),
    "SHORTENED_LINK": lazy_gettext("Use the full URL instead."),
    "MISLEADING_LINK": lazy_gettext("Make the link text match its target."),
    "BROKEN_IMAGE": lazy_gettext("Upload the image, or use a full URL that begins with https://."),
    "IMAGE_WITHOUT_ALT": lazy_gettext("Describe the image in its alternative text."),
    "INSECURE_IMAGE": lazy_gettext("Some email clients block the image. Use an https:// URL."),
    "LOCAL_IMAGE": lazy_gettext("Set the public URL under Settings → Sender."),
    "LOW_CONTRAST": lazy_gettext("Choose colours with more contrast."),
    "EMPTY_BLOCK": lazy_gettext("Fill it, or delete the block."),
    "SAMPLE_TEXT": lazy_gettext("Write your own text."),
    "SAMPLE_LINK": lazy_gettext("Link to your own pages."),
    "INLINE_IMAGE": lazy_gettext("Upload the image and use its URL."),
    "UNSUPPORTED_ELEMENT": lazy_gettext("Use a link or an image instead."),
    "CLIPPED": lazy_gettext("Shorten the email, or move a part of it to a web page."),
    "CAPITALS": lazy_gettext("Use sentence case."),
    "EXCLAMATION_MARKS": lazy_gettext("Use at most one exclamation mark."),
    "PRETENDED_REPLY": lazy_gettext("Remove “Re:”."),
}
