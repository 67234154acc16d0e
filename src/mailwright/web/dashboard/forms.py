"""Read HTML forms and turn errors into one sentence per field."""

from collections.abc import Iterable, Mapping
from typing import Final

from fastapi import Request

from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.sources.api.validation import FieldError, RequestInvalid
from mailwright.texts.sentences import sentence

# The key of an error that concerns the whole form.
FORM: Final = "form"

# Input hints by the last part of the field name, for fields that the API validates with a pattern.
_FORMATS: Final = {
    "listKey": lazy_gettext("Use 1 to 63 characters of a–z, 0–9, - and _, for example product-news."),
    "segmentKey": lazy_gettext("Use 1 to 63 characters of a–z, 0–9, - and _, for example big-spenders."),
    "lists": lazy_gettext("Choose lists that exist."),
    "segment": lazy_gettext("Choose a segment that exists."),
    "templateId": lazy_gettext("Use letters, digits, - and _, for example order-receipt."),
    "variables": lazy_gettext("Use letters, digits and _ in variable names, for example first_name."),
    "winnerBy": lazy_gettext("Choose clicks or opens."),
    "types": lazy_gettext("Choose event types from the list."),
}
# Browsers send an empty field as an empty string, which the API reports as too short.
_MISSING: Final = ("REQUIRED", "TOO_SHORT")
_TOO_FEW: Final = {
    "variants": lazy_gettext("An A/B test needs at least two variants."),
    "addresses": lazy_gettext("Enter at least one address."),
}


class Fields(dict[str, str]):
    """The text fields of a form; a field that was not sent is empty."""

    def __missing__(self, name: str) -> str:
        return ""

    def number(self, name: str) -> int | None:
        """Return a whole number, or None if the field is empty."""
        text = self[name].replace(" ", "").replace(",", "").replace("\u202f", "").replace("\u00a0", "")
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 12:
            raise InvalidInput(gettext("Enter a whole number, 0 or more, with at most 12 digits."), field=name)
        return int(text)


async def read_fields(request: Request, *, verbatim: Iterable[str] = ("password", "current")) -> Fields:
    """Read the text fields of a form and strip them, except those named in `verbatim`."""
    form = await request.form()
    unstripped = frozenset(verbatim)
    texts = ((name, value) for name, value in form.items() if isinstance(value, str))
    return Fields({name: value if name in unstripped else value.strip() for name, value in texts})


async def read_values(request: Request, name: str) -> list[str]:
    """Return all values of a field that may occur several times, such as checkboxes."""
    return [value for value in (await request.form()).getlist(name) if isinstance(value, str)]


class Errors(dict[str, str]):
    """One sentence for each invalid field; empty for every other field."""

    def __missing__(self, name: str) -> str:
        return ""


def field_errors(error: MailwrightError, names: Mapping[str, str] | None = None) -> Errors:
    """Return the errors by form field. `names` maps API fields to form fields with another name."""
    names = names or {}
    if isinstance(error, RequestInvalid):
        return Errors({names.get(each.field, each.field): field_sentence(each) for each in error.errors})
    name = error.field if error.field is not None else FORM
    return Errors({names.get(name, name): sentence(error.text)})


def field_sentence(error: FieldError) -> str:
    """Describe an API error in a sentence for the users of a form."""
    last = error.field.rpartition(".")[2].partition("[")[0]
    if error.code == "INVALID" and last in _FORMATS:
        return _FORMATS[last]
    if error.code == "TOO_FEW" and last in _TOO_FEW:
        return _TOO_FEW[last]
    return gettext("This field is required.") if error.code in _MISSING else sentence(error.message)
