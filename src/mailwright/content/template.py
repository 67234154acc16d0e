"""Templates of tenants: Jinja with strict variables, escaping, and limits on time and memory."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import minijinja

from mailwright.content import html as html_rules
from mailwright.content import subject as subject_rules
from mailwright.content import text as plain_text
from mailwright.content.template_syntax import (
    FUNCTIONS,
    MAX_TAG_CHARACTERS,
    InvalidSubject,
    InvalidTemplate,
    read_syntax,
)
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_number

__all__ = [
    "MARK_END",
    "MARK_START",
    "FlatTemplate",
    "InvalidSubject",
    "InvalidTemplate",
    "MissingVariable",
    "Path",
    "RenderedEmail",
    "Template",
    "TemplatePart",
    "UnsafeValue",
    "Values",
    "as_text",
    "escape",
    "lookup",
    "split_marks",
    "variables",
]

Values = Mapping[str, Any]
# `customer.name` is ("customer", "name").
Path = tuple[str, ...]


class MissingVariable(InvalidTemplate):
    """The template uses a variable without a value."""

    def __init__(self, variable: str) -> None:
        super().__init__("The template needs a value for {variable}.", variable=variable)
        self.variable = variable


class UnsafeValue(InvalidTemplate):
    """The values make the email unsafe or blank: it would run code in the recipient's browser, or show nothing."""


class RenderedEmail(NamedTuple):
    subject: str
    html: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class FlatTemplate:
    """A template that consists of fixed pieces with variables in between: pieces[0], paths[0], pieces[1], …"""

    pieces: tuple[str, ...]
    paths: tuple[Path, ...]


class Template:
    """Subject, HTML and text of one version, checked and compiled once. Rendering does not change it."""

    def __init__(self, *, subject: str, html: str | None, text: str | None) -> None:
        for part in (subject, html, text):
            if part is not None and len(part) > html_rules.MAX_BYTES:
                raise InvalidTemplate(
                    "A part of the template has more than {max_bytes} characters.", max_bytes=html_rules.MAX_BYTES
                )
        try:
            self.subject = TemplatePart("subject", subject)
        except InvalidTemplate as error:
            raise InvalidSubject(error) from error
        self.html = TemplatePart("html", html) if html is not None else None
        self.text = TemplatePart("text", text) if text is not None else None
        if html is not None and (problem := html_rules.html_problem(html)):
            raise InvalidTemplate(problem)

    @property
    def variables(self) -> frozenset[str]:
        parts = [part for part in (self.subject, self.html, self.text) if part is not None]
        return frozenset[str]().union(*[part.variables for part in parts])

    @property
    def required_variables(self) -> frozenset[str]:
        """The variables that need a value. Variables with a default or used only in conditions do not."""
        parts = [part for part in (self.subject, self.html, self.text) if part is not None]
        return frozenset[str]().union(*[part.required_variables for part in parts])

    def render(self, values: Values) -> RenderedEmail:
        """Render the email. Without a text template, the text is derived from the HTML."""
        subject = self.subject.render(values)
        if problem := subject_rules.subject_problem(subject):
            raise InvalidTemplate(problem)
        html = self.html.render(values) if self.html else None
        if html is not None and (problem := html_rules.html_problem(html)):
            raise UnsafeValue(problem)
        if self.text:
            return RenderedEmail(subject, html, self.text.render(values))
        return RenderedEmail(subject, html, plain_text.from_html(html) if html is not None else None)


class TemplatePart:
    """One part of a template. Values are escaped in `html` only."""

    def __init__(self, part: str, source: str) -> None:
        self.part = part
        self.source = source
        syntax = read_syntax(source)
        self._growth = syntax.growth
        self._literals = MAX_TAG_CHARACTERS + (ITEM_CHARACTERS * MAX_RANGE if syntax.called_functions else 0)
        self._fuel = _fuel(source)
        self._rendering = threading.Lock()
        self._environment = minijinja.Environment(
            fuel=self._fuel,
            undefined_behavior="strict",
            auto_escape_callback=lambda name: "html" if name == "html" else None,
            finalizer=_spend,
            filters=_OWN_FILTERS,
        )
        functions = syntax.called_functions
        for name in (*_REMOVED_GLOBALS, *FUNCTIONS):
            self._environment.remove_global(name)
        for name in functions:
            self._environment.add_global(name, _OWN_FUNCTIONS[name])
        with _translated_errors():
            declared = self._environment.undeclared_variables_in_str(source)
            self.variables = frozenset(declared) - functions
            self._methods = self.variables & _METHODS_OF_VALUES
            self._environment.add_template(part, _assign_from_given(self._methods) + source)
        outputs = syntax.outputs
        self.flat = self._flatten(outputs) if outputs is not None else None
        if self.flat is None and len(self.variables) > MAX_VARIABLES:
            raise InvalidTemplate(
                "A template with conditions or loops can use at most {max_variables} variables.",
                max_variables=MAX_VARIABLES,
            )

    @property
    def required_variables(self) -> frozenset[str]:
        """The variables that need a value, found by rendering without each variable."""
        if self.flat is not None:
            return frozenset(path[0] for path in self.flat.paths)
        return frozenset(name for name in self.variables if any(self._is_required(name, blank) for blank in _BLANKS))

    def _is_required(self, name: str, blank: Any) -> bool:
        """Return whether the template fails without this variable. Failures that also happen with it do not count."""
        blanks = dict.fromkeys(self.variables - {name}, blank)
        try:
            self._render(blanks, self._trial_fuel)
        except MissingVariable as error:
            return _FIRST_NAME.findall(error.variable)[:1] == [name]
        except InvalidTemplate:
            return any(self._can_render({**blanks, name: value}) for value in (*_BLANKS, [0]))
        return False

    def _can_render(self, values: Values) -> bool:
        try:
            self._render(values, self._trial_fuel)
        except InvalidTemplate:
            return False
        return True

    @property
    def _trial_fuel(self) -> int:
        """The maximum number of steps for each of the many renderings that find the required variables."""
        return max(min(self._fuel, 10 * MAX_FUEL // len(self.variables)), MIN_FUEL)

    def render(self, values: Values) -> str:
        return self._render(values, self._fuel)

    def _render(self, values: Values, fuel: int) -> str:
        _budget.left = MAX_CHARACTERS
        sizes = _Sizes()
        given = {name: _seal(values[name], sizes) for name in values}
        if self._methods:
            given[_GIVEN] = _Named(given)
        largest = self._growth * (sizes.characters + self._literals)
        if sizes.characters > MAX_CHARACTERS or largest > MAX_COMBINED:
            raise InvalidTemplate("The values are too large for this template: use fewer or shorter ones.")
        # The engine has a single step counter, so only one thread renders this part at a time.
        with self._rendering, _translated_errors():
            self._environment.fuel = max(min(fuel, MAX_WORK // largest), MIN_FUEL)
            return self._environment.render_template(self.part, **given)

    def _flatten(self, outputs: list[Path]) -> FlatTemplate | None:
        """Let the engine render marks in place of values, so that its own rules for trimming white space apply."""
        if MARK_START in self.source:
            return None
        marks = {path: f"{MARK_START}{number}{MARK_END}" for number, path in enumerate(dict.fromkeys(outputs))}
        values = _nested(marks)
        if values is None:
            return None
        pieces, numbers = split_marks(self.render(values))
        paths = tuple(marks)
        found_paths = tuple(paths[number] for number in numbers)
        # An output that only looks like a variable, for example `true`, leaves no mark.
        return FlatTemplate(tuple(pieces), found_paths) if list(found_paths) == outputs else None


def variables(source: str) -> frozenset[str]:
    """Return the names of a template's variables."""
    return TemplatePart("text", source).variables


def lookup(values: Values, path: Path) -> Any:
    value: Any = values
    try:
        for name in path:
            value = value[name]
    except (KeyError, IndexError, TypeError) as error:
        raise MissingVariable(".".join(path)) from error
    return value


def as_text(value: Any) -> str:
    """Format a value as the engine would."""
    if type(value) is str:
        return value
    if type(value) is int or value is None or type(value) is bool:
        return str(value)
    return _plain_environment.render_str("{{ value }}", value=value)


def escape(text: str) -> str:
    """Escape exactly as the engine does, including the slash."""
    if not _NEEDS_ESCAPE.search(text):
        return text
    # Six replacements take a tenth of the time of one `str.translate`.
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;").replace("'", "&#x27;").replace("/", "&#x2f;")


# Private-use characters, which real templates and values do not contain.
MARK_START, MARK_END = "\ue000", "\ue001"

# Limit for the output of all variables, over all loops. The HTML of an email has at most half a million bytes.
MAX_CHARACTERS = 2_000_000
# Limit for the result of a filter.
MAX_VALUE = 256 * 1024
MAX_FUEL = 100_000
MIN_FUEL = 1_000
# Limit for the characters that one expression combines, and for characters times steps of one rendering. Each
# item of a list counts as `ITEM_CHARACTERS`, because filters such as `sort` compare it with other items.
MAX_COMBINED = 32 * 1024 * 1024
MAX_WORK = 2 * 1024**3
ITEM_CHARACTERS = 50
MAX_RANGE = 1_000
MAX_VALUE_LEVELS = 50
# A template with conditions or loops is rendered without each of its variables, to find the required ones.
MAX_VARIABLES = 500
# Limit for repeating the longest fixed piece of a template in a loop.
MAX_REPEATED_BYTES = 32 * 1024 * 1024
_METHODS_OF_VALUES = frozenset(name for name in dir(dict) if not name.startswith("_"))
_GIVEN = "_given"
_REMOVED_GLOBALS = ("cycler", "debug", "dict", "joiner", "namespace")

_NEEDS_ESCAPE = re.compile("[<>&\"'/]")
_MARK = re.compile(f"{MARK_START}(\\d+){MARK_END}")
_FIRST_NAME = re.compile(r"^\w+")
_UNDEFINED = re.compile(rf"`(?:{_GIVEN}\.)?([^`]+)` is undefined")

_plain_environment = minijinja.Environment()


class _Budget(threading.local):
    """The number of characters that the current rendering of this thread may still output or produce in filters."""

    left = MAX_CHARACTERS


_budget = _Budget()


_attribute = object.__getattribute__


class _Named(dict[str, Any]):
    """A mapping that hides its attributes from the engine, which tries an attribute if a key is missing.

    A template can call `order.items()`, but `order.items` without a call is only the given variable.
    """

    _missed: Any = None

    def __missing__(self, name: Any) -> Any:
        self._missed = name
        raise KeyError(name)

    def __getattribute__(self, name: str) -> Any:
        if name == _attribute(self, "_missed"):
            self._missed = None
            raise AttributeError(name)
        return _attribute(self, name)


class _Blank(_Named):
    """Null object: every lookup returns itself."""

    def __missing__(self, name: Any) -> Any:
        return self


# Possible values of a blank variable: a text, a number, or something with attributes.
_BLANKS = ("", 0, _Blank())


class _InOrder(list[Any]):
    """A list without any method that a template could call."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return _attribute(self, name)
        raise AttributeError(name)


class _Sizes:
    """Counts the characters of the values of one rendering."""

    characters = 0


def _seal(value: Any, sizes: _Sizes, level: int = 0) -> Any:
    """Wrap values so that templates can access only the given data and no attributes, and measure their size."""
    if type(value) is str:
        sizes.characters += len(value)
        return value
    if isinstance(value, _Named):
        return value
    if level > MAX_VALUE_LEVELS:
        raise InvalidTemplate(
            "The values are nested more than {max_value_levels} levels deep.", max_value_levels=MAX_VALUE_LEVELS
        )
    if isinstance(value, Mapping):
        sizes.characters += ITEM_CHARACTERS * len(value)
        return _Named({name: _seal(inner, sizes, level + 1) for name, inner in value.items()})
    if isinstance(value, list | tuple):
        sizes.characters += ITEM_CHARACTERS * len(value)
        return _InOrder(_seal(inner, sizes, level + 1) for inner in value)
    return value


class _TooMuch(Exception):
    """Raised by a filter or an output to stop the rendering when a limit is exceeded."""


def split_marks(marked: str) -> tuple[list[str], list[int]]:
    """Return the pieces around the marks, and the number of each mark."""
    parts = _MARK.split(marked)
    return parts[::2], [int(number) for number in parts[1::2]]


def _spend(value: Any) -> Any:
    """Subtract a value from the output budget. The engine calls this for every value that it outputs."""
    if value is not None and not isinstance(value, int | float):
        _budget.left -= len(value) if isinstance(value, str) else len(as_text(value))
        if _budget.left < 0:
            raise _TooMuch
    return value


def _join(items: Iterable[Any], separator: str = "") -> str:
    _require(items, "join")
    texts = [as_text(item) for item in items]
    _use(sum(map(len, texts)) + (len(separator) + 1) * len(texts))
    return separator.join(texts)


def _replace(value: Any, old: str, new: str) -> str:
    _require(value, "replace")
    text = as_text(value)
    _use(len(text) + text.count(old) * len(new))
    return text.replace(old, new)


def _strict(name: str) -> Callable[..., Any]:
    """Wrap a built-in filter so that a missing variable raises an error; by itself it would render as blank."""

    def apply(value: Any, **options: Any) -> Any:
        _require(value, name)
        call = f"value|{name}(**options)" if options else f"value|{name}"
        return _limited(_plain_environment.eval_expr(call, value=value, options=options))

    return apply


def _limited(value: Any) -> Any:
    _use(len(value) if isinstance(value, str | list) else 1)
    return value


def _use(size: int) -> None:
    """Check the size of a filter's result and subtract it from the budget of the rendering."""
    _budget.left -= size
    if size > MAX_VALUE or _budget.left < 0:
        raise _TooMuch


def _list(value: Any) -> list[Any]:
    _require(value, "list")
    return _InOrder(_limited(list(value)))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else str(_limited(as_text(value)))


def _range(start: int, stop: int | None = None, step: int = 1) -> list[int]:
    numbers = range(start) if stop is None else range(start, stop, step)
    if len(numbers) > MAX_RANGE:
        raise InvalidTemplate("range() has more than {max_range} numbers.", max_range=lazy_number(MAX_RANGE))
    return list(numbers)


def _require(value: Any, name: str) -> None:
    """Raise if a filter has no input. The engine passes None for a missing value."""
    if value is None:
        raise InvalidTemplate("The filter {name} has no input: the value before it is missing or null.", name=name)


# Replacements with a limit for every built-in filter that could multiply text.
_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "join": _join,
    "list": _list,
    "replace": _replace,
    "string": _string,
    **{name: _strict(name) for name in ("e", "escape", "truncate", "urlencode")},
}
_OWN_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"range": _range}


def _assign_from_given(names: Iterable[str]) -> str:
    """Assign these names explicitly.

    The engine stores variables in a dict, so a missing variable `items` would resolve to `dict.items`.
    """
    return "".join(f"{{% set {name} = {_GIVEN}.{name} %}}" for name in sorted(names))


def _fuel(source: str) -> int:
    """Return the number of steps that a template may take.

    The engine limits steps, not bytes. So the longer the fixed text of a template's loop is, the fewer steps it gets.
    """
    longest = max(len(piece) for piece in re.split(r"[{%}]\}", source))
    return min(max(MAX_REPEATED_BYTES // (longest + 1), MIN_FUEL), MAX_FUEL)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn errors of the engine into our own, with the line of the template."""
    try:
        yield
    except _TooMuch as error:
        raise InvalidTemplate("The template produces more text than an email may have.") from error
    except minijinja.TemplateError as error:
        raise _translate_error(error) from error
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidTemplate("The template cannot be rendered: {error}", error=error) from error


def _translate_error(error: minijinja.TemplateError) -> InvalidTemplate:
    detail = error.detail or error.message
    if named := _UNDEFINED.search(detail):
        return MissingVariable(named[1])
    if error.kind == "OutOfFuel":
        return InvalidTemplate("The template takes too many steps to render. Use shorter loops.", line=error.line)
    return InvalidTemplate("The template cannot be rendered: {detail}", line=error.line, detail=detail)


def _nested(marks: Mapping[Path, str]) -> dict[str, Any] | None:
    """Build values in which every path leads to its mark, or return None if one path is a prefix of another."""
    values: dict[str, Any] = {}
    for path, mark in sorted(marks.items()):
        inner: Any = values
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
            if not isinstance(inner, dict):
                return None
        if path[-1] in inner:
            return None
        inner[path[-1]] = mark
    return values
