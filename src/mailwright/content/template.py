"""Templates of tenants: Jinja with strict variables, escaping, and limits on time and memory."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, cast

import minijinja

from mailwright.content import html as html_rules
from mailwright.content import subject as subject_rules
from mailwright.content import text as plain_text
from mailwright.domain.errors import MailwrightError

Values = Mapping[str, Any]
# `customer.name` is ("customer", "name").
Path = tuple[str, ...]


class InvalidTemplate(MailwrightError):
    """The template cannot be rendered."""

    code = "INVALID_TEMPLATE"

    def __init__(self, message: str | None = None, *, line: int | None = None) -> None:
        super().__init__(message if line is None else f"Line {line}: {message}", field="template")
        self.line = line


class MissingVariable(InvalidTemplate):
    """The template uses a variable without a value."""

    def __init__(self, variable: str) -> None:
        super().__init__(f"The template needs a value for {variable}.")
        self.variable = variable


class UnsafeValue(InvalidTemplate):
    """With these values the email must not be sent: it would run code in the recipient's browser, or be blank."""


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
                raise InvalidTemplate(f"A part of the template has more than {html_rules.MAX_BYTES} characters.")
        self.subject = TemplatePart("subject", subject)
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
        """The variables that need a value. One with a default, or only used in a condition, does not."""
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
        outputs = _plain_outputs(source)
        self._environment = minijinja.Environment(
            fuel=_fuel(source),
            undefined_behavior="strict",
            auto_escape_callback=lambda name: "html" if name == "html" else None,
            finalizer=_spend,
            filters=_OWN_FILTERS,
        )
        functions = _called_functions(source)
        for name in (*_REMOVED_GLOBALS, *_FUNCTIONS - functions):
            self._environment.remove_global(name)
        with _translated_errors():
            declared = self._environment.undeclared_variables_in_str(source)
            self.variables = frozenset(declared) - functions
            self._methods = self.variables & _METHODS_OF_VALUES
            self._environment.add_template(part, _assign_from_given(self._methods) + source)
        self.flat = self._flatten(outputs) if outputs is not None else None

    @property
    def required_variables(self) -> frozenset[str]:
        """Found by rendering without each variable."""
        if self.flat is not None:
            return frozenset(path[0] for path in self.flat.paths)
        return frozenset(name for name in self.variables if any(self._is_required(name, blank) for blank in _BLANKS))

    def _is_required(self, name: str, blank: Any) -> bool:
        """Return whether the template needs this variable. A failure that happens with it too says nothing."""
        blanks = dict.fromkeys(self.variables - {name}, blank)
        try:
            self.render(blanks)
        except MissingVariable as error:
            return _FIRST_NAME.findall(error.variable)[:1] == [name]
        except InvalidTemplate:
            return any(self._can_render({**blanks, name: value}) for value in (*_BLANKS, [0]))
        return False

    def _can_render(self, values: Values) -> bool:
        try:
            self.render(values)
        except InvalidTemplate:
            return False
        return True

    def render(self, values: Values) -> str:
        _budget.left = MAX_CHARACTERS
        given = {name: _seal(values[name]) for name in values}
        if self._methods:
            given[_GIVEN] = _Named(given)
        with _translated_errors():
            return self._environment.render_template(self.part, **given)

    def _flatten(self, outputs: list[Path]) -> FlatTemplate | None:
        """Let the engine render marks in place of values, so that white space is trimmed by its own rules."""
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
    """Return the names of the variables of a template."""
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


# Private-use characters that no honest template or value contains.
MARK_START, MARK_END = "\ue000", "\ue001"

# Limit for the output of all variables, over all loops. The HTML of an email has at most half a million bytes.
MAX_CHARACTERS = 2_000_000
# Limit for the result of a filter.
MAX_VALUE = 256 * 1024
MAX_FUEL = 100_000
MIN_FUEL = 1_000
# Limit for repeating the longest fixed piece of a template in a loop.
MAX_REPEATED_BYTES = 32 * 1024 * 1024
# Every further value in an assignment may double its result: ten of them make at most 1,024 times the size.
MAX_DOUBLINGS = 10

_STATEMENTS = frozenset(["if", "elif", "else", "endif", "for", "endfor", "set"])
_WORDS = """
    abs capitalize count d default dictsort e escape filesizeformat first float int items join last length list lower
    max min pluralize replace reverse round safe sort string sum title trim truncate unique upper urlencode
"""
_FILTERS = frozenset(_WORDS.split())
_FUNCTIONS = frozenset(["range"])
_METHODS = frozenset(
    ["capitalize", "endswith", "get", "items", "keys", "lower", "startswith", "strip", "title", "upper", "values"]
)
_METHODS_OF_VALUES = frozenset(name for name in dir(dict) if not name.startswith("_"))
_GIVEN = "_given"
_KEYWORDS = frozenset(["if", "elif", "else", "for", "in", "not", "and", "or", "is", "set"])
_REMOVED_GLOBALS = ("cycler", "debug", "dict", "joiner", "namespace")

_NEEDS_ESCAPE = re.compile("[<>&\"'/]")
_MARK = re.compile(f"{MARK_START}(\\d+){MARK_END}")
_OPENING = re.compile(r"\{([%{#])[-+]?")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}.*?\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<end>[-+]?[%}]\})|(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?P<name>[^\W\d]\w*)"""
    r"""|(?P<number>\d[\w.]*)|(?P<operator>\*\*|//|[=!<>]=|[^\s]))""",
    re.DOTALL,
)

_FIRST_NAME = re.compile(r"^\w+")
_UNDEFINED = re.compile(rf"`(?:{_GIVEN}\.)?([^`]+)` is undefined")

_plain_environment = minijinja.Environment()


class _Budget(threading.local):
    """The number of characters that the current rendering of this thread may still output."""

    left = MAX_CHARACTERS


_budget = _Budget()


_attribute = object.__getattribute__


class _Named(dict[str, Any]):
    """A mapping for the engine, which looks up a key and, if it is missing, an attribute of that name.

    `order.items()` may be called, but `order.items` is a variable that was given or not.
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


def _seal(value: Any) -> Any:
    """Make only the given values reachable by name."""
    if type(value) is str or isinstance(value, _Named):
        return value
    if isinstance(value, Mapping):
        return _Named({name: _seal(inner) for name, inner in value.items()})
    if isinstance(value, list | tuple):
        return _InOrder(map(_seal, value))
    return value


class _TooMuch(Exception):
    """Raised by a filter or an output to leave the engine."""


def split_marks(marked: str) -> tuple[list[str], list[int]]:
    """Return the pieces around the marks, and the number of each mark."""
    parts = _MARK.split(marked)
    return parts[::2], [int(number) for number in parts[1::2]]


def _spend(value: Any) -> Any:
    """Subtract a value from the output budget. The engine calls this for every value that it outputs."""
    if isinstance(value, str):
        _budget.left -= len(value)
        if _budget.left < 0:
            raise _TooMuch
    return value


def _join(items: Iterable[Any], separator: str = "") -> str:
    _require(items, "join")
    texts = [as_text(item) for item in items]
    if sum(map(len, texts)) + len(separator) * len(texts) > MAX_VALUE:
        raise _TooMuch
    return separator.join(texts)


def _replace(value: Any, old: str, new: str) -> str:
    _require(value, "replace")
    text = as_text(value)
    if len(text) + text.count(old) * len(new) > MAX_VALUE:
        raise _TooMuch
    return text.replace(old, new)


def _strict(name: str) -> Callable[..., Any]:
    """Wrap a filter of the engine, which by itself would render a missing variable as blank."""

    def apply(value: Any, **options: Any) -> Any:
        _require(value, name)
        call = f"value|{name}(**options)" if options else f"value|{name}"
        return _plain_environment.eval_expr(call, value=value, options=options)

    return apply


def _require(value: Any, name: str) -> None:
    """Raise if a filter has no input. The engine passes None for a missing value."""
    if value is None:
        raise InvalidTemplate(f"The filter {name} has no input: the value before it is missing or null.")


# Every filter that could multiply text is our own, with a limit.
_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "join": _join,
    "replace": _replace,
    **{name: _strict(name) for name in ("e", "escape", "truncate", "urlencode")},
}


def _assign_from_given(names: Iterable[str]) -> str:
    """Assign these names explicitly.

    The engine stores variables in a dict, so a missing variable `items` would resolve to `dict.items`.
    """
    return "".join(f"{{% set {name} = {_GIVEN}.{name} %}}" for name in sorted(names))


def _fuel(source: str) -> int:
    """Return the number of steps that a template may take.

    The engine limits steps, not bytes: the longer the fixed text of a loop, the fewer steps the template gets.
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
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidTemplate(f"The template cannot be rendered: {error}") from error


def _translate_error(error: minijinja.TemplateError) -> InvalidTemplate:
    detail = error.detail or error.message
    if named := _UNDEFINED.search(detail):
        return MissingVariable(named[1])
    if error.kind == "OutOfFuel":
        return InvalidTemplate("The template takes too many steps.", line=error.line)
    return InvalidTemplate(f"The template cannot be rendered: {detail}", line=error.line)


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


def _plain_outputs(source: str) -> list[Path] | None:
    """Raise if the template does something forbidden. Return its output paths if it does nothing but output them."""
    outputs: list[Path] | None = []
    doublings = 0
    for is_output, line, tokens in _code(source):
        if not is_output:
            doublings += _check_statement(tokens, line)
        _check_expression(tokens, line)
        path = _path(tokens) if is_output else None
        if path is None:
            outputs = None
        elif outputs is not None:
            outputs.append(path)
        if doublings > MAX_DOUBLINGS:
            raise InvalidTemplate("The assignments of the template combine too many values.", line=line)
    return outputs


def _called_functions(source: str) -> frozenset[str]:
    """Return the names that the template calls as functions; a name that is not called is a variable."""
    called = {
        token.text
        for _, _, tokens in _code(source)
        for token, following in pairwise(tokens)
        if token.kind == "name" and following == _Token("operator", "(")
    }
    return _FUNCTIONS & called


class _Token(NamedTuple):
    kind: str
    text: str


def _code(source: str) -> Iterator[tuple[bool, int, list[_Token]]]:
    """Yield every `{{ }}` and `{% %}` with its line. Comments and raw text are skipped."""
    position = counted = 0
    line = 1
    while opening := _OPENING.search(source, position):
        line += source.count("\n", counted, opening.start())
        counted = opening.start()
        if opening[1] == "#":
            end = source.find("#}", opening.end())
            position = len(source) if end < 0 else end + 2
        elif raw := _RAW.match(source, opening.start()):
            position = raw.end()
        else:
            tokens, position = _tokens(source, opening.end(), line)
            yield opening[1] == "{", line, tokens


def _tokens(source: str, position: int, line: int) -> tuple[list[_Token], int]:
    tokens: list[_Token] = []
    while token := _TOKEN.match(source, position):
        position = token.end()
        kind = cast("str", token.lastgroup)
        if kind == "end":
            return tokens, position
        tokens.append(_Token(kind, token[kind]))
    raise InvalidTemplate("A block is not closed.", line=line)


def _path(tokens: list[_Token]) -> Path | None:
    names, dots = tokens[::2], tokens[1::2]
    if len(names) != len(dots) + 1:
        return None
    if all(token.kind == "name" for token in names) and all(token.text == "." for token in dots):
        return tuple(token.text for token in names)
    return None


def _check_statement(tokens: list[_Token], line: int) -> int:
    """Return how often an assignment may double a value; 0 for other statements."""
    keyword = tokens[0].text if tokens else ""
    if keyword not in _STATEMENTS or _Token("name", "recursive") in tokens:
        raise InvalidTemplate(f"Only if, for and set are available in templates, not {keyword or 'this'}.", line=line)
    if keyword != "set":
        return 0
    equals = _Token("operator", "=")
    if equals not in tokens:
        raise InvalidTemplate("set needs a value: {% set name = value %}.", line=line)
    assigned = tokens[tokens.index(equals) :]
    mentioned = [
        token
        for before, token in pairwise(assigned)
        if token.kind == "name" and token.text not in _KEYWORDS and before.text not in (".", "|")
    ]
    return max(len(mentioned) - 1, 0)


def _check_expression(tokens: list[_Token], line: int) -> None:
    before, last = _Token("", ""), _Token("", "")
    for token in tokens:
        if token.kind == "operator" and token.text in ("*", "**", "{"):
            raise InvalidTemplate(f"{token.text} is not available in templates.", line=line)
        if token.kind == "name" and last.text == "|" and last.kind == "operator" and token.text not in _FILTERS:
            raise InvalidTemplate(f"There is no filter {token.text}.", line=line)
        if token.text == "(" and token.kind == "operator":
            _check_call(before, last, line)
        before, last = last, token


def _check_call(before: _Token, called: _Token, line: int) -> None:
    """Raise for a forbidden call. A parenthesis after a name is a call; after an operator it only groups."""
    is_operator = before.kind == "operator"
    if called.kind == "name":
        allowed = _FUNCTIONS | _KEYWORDS
        if is_operator and before.text == ".":
            allowed = _METHODS
        elif is_operator and before.text == "|":
            allowed = _FILTERS
        if called.text not in allowed and before.text not in ("is", "not"):
            raise InvalidTemplate(f"{called.text}() is not available in templates.", line=line)
    elif called.text in (")", "]") or called.kind == "string":
        raise InvalidTemplate("Only a function can be called.", line=line)
