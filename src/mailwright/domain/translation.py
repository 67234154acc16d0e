"""Translate texts that people read. A context variable holds the language of the current request; without it, texts are
English.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import field
from html import escape
from types import MappingProxyType
from typing import Any, Final, SupportsIndex

from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The translations of one language. A message without a translation stays in English."""

    language: str
    messages: Mapping[str, str] = field(default_factory=dict)
    plurals: Mapping[str, Sequence[str]] = field(default_factory=dict)  # the forms of a message, by its singular


ENGLISH: Final = Catalogue("en")
# Between the context of a message and its text, as in the files of gettext.
_AFTER_CONTEXT: Final = "\4"
# Thousands separator and decimal point. A number must not be broken at the end of a line.
_SEPARATORS: Final = {"en": (",", "."), "ru": ("\N{NO-BREAK SPACE}", ","), "pt": (".", ",")}
_current: Final[ContextVar[Catalogue | None]] = ContextVar("catalogue", default=None)


def current_catalogue() -> Catalogue:
    return _current.get() or ENGLISH


def catalogue_of_page() -> Catalogue | None:
    """Return the language of the current page, or None in commands, workers and the API."""
    return _current.get()


def use_catalogue(catalogue: Catalogue) -> None:
    """Translate into this language for the rest of the request."""
    _current.set(catalogue)


@contextmanager
def using(catalogue: Catalogue) -> Iterator[None]:
    """Translate into this language until the block ends. The block can choose another language."""
    token = _current.set(catalogue)
    try:
        yield
    finally:
        _current.reset(token)


def gettext(message: str, /, **values: object) -> str:
    """Translate a message and fill in its placeholders: `gettext("Saved {name}.", name=name)`."""
    return pgettext("", message, **values)


def pgettext(context: str, message: str, /, **values: object) -> str:
    """Translate a message that has another meaning in this context, for example "Source" for the code of an email."""
    text = current_catalogue().messages.get(message_key(message, context)) or message
    return text.format(**values) if values else text


def message_key(message: str, context: str = "") -> str:
    """Return the key of a message in a catalogue."""
    return f"{context}{_AFTER_CONTEXT}{message}" if context else message


def split_key(key: str) -> tuple[str, str]:
    """Return the context, or "", and the message of a key."""
    context, _, message = key.rpartition(_AFTER_CONTEXT)
    return context, message


def ngettext(one: str, many: str, count: int, **values: object) -> str:
    """Translate a message in the form that the number needs. `{count}` is the formatted number."""
    return plural_message(one, many, count).format(count=number_text(count), **values)


def plural_message(one: str, many: str, count: int) -> str:
    """Return the translation in the form that the number needs, with its placeholders."""
    catalogue = current_catalogue()
    forms = catalogue.plurals.get(one)
    return forms[plural_form(catalogue.language, count)] if forms else one if count == 1 else many


def lazy_gettext(message: str, /, **values: object) -> str:
    """Return a message that is translated each time it is shown. Use it in constants, classes and lower layers."""
    return message if isinstance(message, _LazyText) else _LazyText(message, values)


def lazy_pgettext(context: str, message: str) -> str:
    """Return a message like `lazy_gettext`, with a context like `pgettext`."""
    return _LazyText(message, {}, context)


def lazy_number(value: float, decimals: int = 0) -> str:
    """Return a number that is formatted for the language of the page each time it is shown."""
    return lazy_text(lambda: number_text(value, decimals))


def lazy_join(separator: str, texts: Sequence[str]) -> str:
    """Join messages into a text that is translated each time it is shown. `str.join` would use their English texts."""
    return lazy_text(lambda: separator.join(map(str, texts)))


def lazy_text(make: Callable[[], str]) -> str:
    """Return a text that is built each time it is shown, in the language of the page."""
    return _MadeText(make)


def lower_first(text: str) -> str:
    """Return a sentence that begins in lower case, so that it can follow in another sentence."""
    return f"{text[:1].lower()}{text[1:]}"


def english_text(text: str) -> str:
    """Return the English version of a text, regardless of the language of the page."""
    return str.__str__(text)


class _LazyText(str):
    """A text that is translated when it is shown.

    It compares, hashes and is stored as its English text, so it can be a key.
    """

    __slots__ = ("_context", "_message", "_values")
    _context: str
    _message: str
    _values: Mapping[str, object]

    def __new__(
        cls, message: str, values: Mapping[str, object] = MappingProxyType({}), context: str = ""
    ) -> "_LazyText":
        with using(ENGLISH) if values else nullcontext():
            text = super().__new__(cls, message.format(**values) if values else message)
        text._message, text._values, text._context = message, values, context
        return text

    def __str__(self) -> str:
        return pgettext(self._context, self._message, **self._values)

    def __html__(self) -> str:
        return escape(str(self), quote=False)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __add__(self, other: str) -> str:
        return str(self) + other

    def __radd__(self, other: str) -> str:
        return other + str(self)

    def __getitem__(self, at: SupportsIndex | slice) -> str:
        return str(self)[at]


def _in_the_language(name: str) -> Callable[..., Any]:
    return lambda text, *values, **named: getattr(str(text), name)(*values, **named)


# String methods that pages call apply to the translation.
for _name in ("capitalize", "format", "lower", "removeprefix", "removesuffix", "replace", "rstrip", "split", "strip"):
    setattr(_LazyText, _name, _in_the_language(_name))


class _MadeText(_LazyText):
    """A text that is not a message itself: a number, or a list of messages."""

    __slots__ = ("_make",)
    _make: Callable[[], str]

    def __new__(cls, make: Callable[[], str]) -> "_MadeText":
        with using(ENGLISH):
            text = str.__new__(cls, make())
        text._make = make
        return text

    def __str__(self) -> str:
        return self._make()

    def __reduce__(self) -> tuple[type["_MadeText"], tuple[Callable[[], str]]]:
        return _MadeText, (self._make,)


def marked_plural(one: str, many: str) -> tuple[str, str]:
    """Mark the forms of a message for the catalogue; `ngettext` translates them when they are shown."""
    return one, many


def plural_form(language: str, count: int) -> int:
    """Return the index of the plural form, by the rules of gettext."""
    match language:
        case "ru":
            if count % 10 == 1 and count % 100 != 11:
                return 0
            return 1 if 2 <= count % 10 <= 4 and not 12 <= count % 100 <= 14 else 2
        case "pt":
            return int(count > 1)
    return int(count != 1)


def number_text(value: float, decimals: int = 0) -> str:
    """Format a number with the separators of the language: `12,345.6`, `12 345,6` or `12.345,6`."""
    thousands, point = _SEPARATORS[current_catalogue().language]
    return f"{value:,.{decimals}f}".translate({ord(","): thousands, ord("."): point})
