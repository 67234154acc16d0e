"""Forms: what a page sends, as text, with the errors of its fields beside them."""

from collections.abc import Iterable, Mapping

from fastapi import Request

from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.sources.api.requests import RequestInvalid

# Beside the fields themselves: what is wrong with the form as a whole.
FORM = "form"


class Fields(dict[str, str]):
    """Every field as text without space around it; one that was not sent is empty. A password keeps its spaces."""

    def __missing__(self, name: str) -> str:
        return ""

    def number(self, name: str) -> int | None:
        """None where nothing was written; what is no number is told of by name."""
        text = self[name].replace(" ", "").replace("\u202f", "")
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 12:
            raise InvalidInput("must be a whole number", field=name)
        return int(text)


async def read_fields(request: Request, *, verbatim: Iterable[str] = ("password", "current")) -> Fields:
    form = await request.form()
    kept = frozenset(verbatim)
    found = ((name, value) for name, value in form.items() if isinstance(value, str))
    return Fields({name: value if name in kept else value.strip() for name, value in found})


async def read_values(request: Request, name: str) -> list[str]:
    """All values of a field that may be sent several times, as boxes that are ticked."""
    return [value for value in (await request.form()).getlist(name) if isinstance(value, str)]


class Errors(dict[str, str]):
    """A sentence for each field that is wrong; asked for another, nothing."""

    def __missing__(self, name: str) -> str:
        return ""


def field_errors(error: MailwrightError, names: Mapping[str, str] | None = None) -> Errors:
    """Beside the field that the error is about; `names` are fields that a page calls otherwise than the API."""
    names = names or {}
    if isinstance(error, RequestInvalid):
        return Errors({names.get(each.field, each.field): each.message for each in error.errors})
    name = error.field if error.field is not None else FORM
    return Errors({names.get(name, name): str(error)})
