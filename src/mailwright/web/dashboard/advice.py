"""Advice on how to fix the issues of a campaign's pre-send check, by issue code, and the pages where users fix them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mailwright.content import presend_advice
from mailwright.domain.translation import lazy_gettext

ADVICE: Final[Mapping[str, str]] = {
    **presend_advice.ADVICE,
    "NO_RECIPIENTS": lazy_gettext("Choose another list or segment, or import contacts first."),
    "UNKNOWN_CAMPAIGN": lazy_gettext("Change the filter, or the segment that names it."),
    "UNKNOWN_LIST": lazy_gettext("Choose another list."),
    "UNKNOWN_TEMPLATE": lazy_gettext("Choose another template, or write the email here."),
    "TOO_FEW_FOR_TEST": lazy_gettext("Increase the size of the test group, or use fewer variants."),
    "SMALL_AB_TEST": lazy_gettext(
        "Increase the size of the test group, or choose the variant to send without a clear result."
    ),
}


class FixPage(NamedTuple):
    path: str
    label: str


# Pages of administrators where a problem of the content is fixed.
FIX_PAGES: Final[Mapping[str, FixPage]] = {
    "LOCAL_IMAGE": FixPage("/settings/sender", lazy_gettext("Set the public URL")),
    "EMPTY_HEADER": FixPage("/settings/brand", lazy_gettext("Set a logo or a name in the brand kit")),
    "NO_POSTAL_ADDRESS": FixPage("/settings/sender", lazy_gettext("Set the postal address")),
}
