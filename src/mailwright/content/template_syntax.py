"""Check a tenant's template before the engine parses it, and refuse code that could exhaust the stack or memory.

The engine parses recursively: every operator or `elif` in a chain needs native stack, and an overflow ends the process.
So every tag has a maximum number of characters, tokens and brackets, and blocks have a maximum number of levels. With
these limits the engine needs less than half a megabyte of stack; the fuzzer in `tests/faults/templates.py` checks this.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, cast

from mailwright.domain.errors import MailwrightError
from mailwright.domain.translation import lazy_gettext, lazy_number, lazy_text, lower_first


class InvalidTemplate(MailwrightError):
    """The template cannot be rendered."""

    code = "INVALID_TEMPLATE"

    def __init__(self, message: str | None = None, /, *, line: int | None = None, **values: object) -> None:
        super().__init__(message, field="template", **values)
        self.reason = self.text
        self.line = line
        if line is not None:
            super().__init__("Line {line}: {reason}", line=line, reason=self.reason, field="template")


class InvalidSubject(InvalidTemplate):
    """The subject of the template cannot be rendered. The message has no line number, because a subject is one line."""

    def __init__(self, error: InvalidTemplate) -> None:
        super().__init__("The subject is invalid: {reason}", reason=lazy_text(lambda: lower_first(error.reason)))
        self.field = "subject"


# Limits of one tag. The longest tags of real templates have about fifty tokens.
MAX_TAG_CHARACTERS = 10_000
MAX_TAG_TOKENS = 500
MAX_BRACKETS = 20
MAX_NUMBER_CHARACTERS = 40
# Maximum number of open blocks plus their `elif` branches. The engine parses each branch as a block inside the branch
# before it.
MAX_LEVELS = 100
# Every additional value in an assignment may double its result; ten of them multiply the size by at most 1,024.
MAX_DOUBLINGS = 10

_WORDS = """
    abs capitalize count d default dictsort e escape filesizeformat first float int items join last length list lower
    max min pluralize replace reverse round safe sort string sum title trim truncate unique upper urlencode
"""
_FILTERS = frozenset(_WORDS.split())
FUNCTIONS = frozenset(["range"])
_METHODS = frozenset(
    ["capitalize", "endswith", "get", "items", "keys", "lower", "startswith", "strip", "title", "upper", "values"]
)
_STATEMENTS = frozenset(["if", "elif", "else", "endif", "for", "endfor", "set"])
_KEYWORDS = frozenset(["if", "elif", "else", "for", "in", "not", "and", "or", "is", "set"])

# The engine treats only these characters as white space, and only ASCII digits as numbers.
_SPACE = r"[ \t\n\r\f]"
_OPENING = re.compile(r"\{([%{#])[-+]?")
_RAW = re.compile(rf"\{{%[-+]?{_SPACE}*raw{_SPACE}*[-+]?%\}}.*?\{{%[-+]?{_SPACE}*endraw{_SPACE}*[-+]?%\}}", re.DOTALL)
_TOKEN = re.compile(
    rf"""{_SPACE}*(?:(?P<end>[-+]?[%}}]\}})|(?P<string>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?P<name>[^\W\d]\w*)"""
    rf"""|(?P<number>[0-9][\w.]*)|(?P<operator>\*\*|//|[=!<>]=|[^ \t\n\r\f]))""",
    re.DOTALL,
)


class Token(NamedTuple):
    kind: str
    text: str


class Tag(NamedTuple):
    """One `{{ }}` or `{% %}`. `line` is the line on which it begins."""

    is_output: bool
    line: int
    tokens: list[Token]

    @property
    def path(self) -> tuple[str, ...] | None:
        """The names in an output that is only a variable: ("customer", "name") for `{{ customer.name }}`; else None."""
        names, dots = self.tokens[::2], self.tokens[1::2]
        if not self.is_output or len(names) != len(dots) + 1:
            return None
        if all(token.kind == "name" for token in names) and all(token.text == "." for token in dots):
            return tuple(token.text for token in names)
        return None


class TemplateSyntax(NamedTuple):
    """The tags of a template that passed all checks."""

    tags: list[Tag]
    # The factor by which the result of an expression can be larger than its values and literals.
    growth: int

    @property
    def outputs(self) -> list[tuple[str, ...]] | None:
        """The paths of all outputs, or None if the template does more than output variables."""
        paths = [tag.path for tag in self.tags]
        return None if None in paths else cast("list[tuple[str, ...]]", paths)

    @property
    def called_functions(self) -> frozenset[str]:
        """The names that the template calls as functions; a name that is not called is a variable."""
        called = {
            token.text
            for tag in self.tags
            for token, following in pairwise(tag.tokens)
            if token.kind == "name" and following == _OPEN
        }
        return FUNCTIONS & called


def read_syntax(source: str) -> TemplateSyntax:
    """Return the tags of a template, or raise if it does something forbidden or is too complex."""
    tags: list[Tag] = []
    blocks: list[int] = []  # The number of levels of each open block.
    doublings, largest = 0, 1
    for tag in _tags(source):
        _check_expression(tag)
        if not tag.is_output:
            doublings += _check_statement(tag)
            _follow_blocks(tag, blocks)
        largest = max(largest, _growth(tag))
        if doublings > MAX_DOUBLINGS:
            raise InvalidTemplate("Assignments combine too many values. Use fewer set statements.", line=tag.line)
        tags.append(tag)
    return TemplateSyntax(tags, largest << doublings)


_OPEN = Token("operator", "(")
_EQUALS = Token("operator", "=")


def _tags(source: str) -> Iterator[Tag]:
    """Yield every `{{ }}` and `{% %}`. Comments and raw text are skipped."""
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
            yield Tag(opening[1] == "{", line, tokens)


def _tokens(source: str, start: int, line: int) -> tuple[list[Token], int]:
    tokens: list[Token] = []
    position = start
    # Stop at the maximum length of a tag, even in the middle of a token.
    limit = min(len(source), start + MAX_TAG_CHARACTERS + 2)
    while token := _TOKEN.match(source, position, limit):
        position = token.end()
        kind = cast("str", token.lastgroup)
        if kind == "end":
            return tokens, position
        tokens.append(Token(kind, token[kind]))
        if len(tokens) > MAX_TAG_TOKENS:
            raise InvalidTemplate(
                "One tag has more than {max_tag_tokens} words and signs. Split it.",
                line=line,
                max_tag_tokens=MAX_TAG_TOKENS,
            )
        if kind == "number" and len(token[kind]) > MAX_NUMBER_CHARACTERS:
            raise InvalidTemplate(
                "A number has more than {max_number_characters} digits.",
                line=line,
                max_number_characters=MAX_NUMBER_CHARACTERS,
            )
    if limit < len(source):
        raise InvalidTemplate(
            "One tag has more than {max_tag_characters} characters. Split it.",
            line=line,
            max_tag_characters=lazy_number(MAX_TAG_CHARACTERS),
        )
    raise InvalidTemplate("A block is not closed.", line=line)


def _follow_blocks(tag: Tag, blocks: list[int]) -> None:
    keyword = tag.tokens[0].text
    if keyword in ("if", "for"):
        blocks.append(1)
    elif keyword == "elif" and blocks:
        blocks[-1] += 1
    elif keyword in ("endif", "endfor") and blocks:
        blocks.pop()
    if sum(blocks) > MAX_LEVELS:
        raise InvalidTemplate(
            "Blocks are nested more than {levels} levels deep. Each if, elif and for counts as a level.",
            levels=MAX_LEVELS,
            line=tag.line,
        )


def _check_statement(tag: Tag) -> int:
    """Return how many times a statement may double a value. Assignments and loops that combine values do so."""
    tokens = tag.tokens
    keyword = tokens[0].text if tokens else ""
    if keyword not in _STATEMENTS or Token("name", "recursive") in tokens:
        raise InvalidTemplate(
            "Only if, for and set are available in templates, not {keyword}.",
            keyword=keyword[:60] or lazy_gettext("this"),
            line=tag.line,
        )
    if keyword == "set" and _EQUALS not in tokens:
        raise InvalidTemplate(
            "set needs a value, for example {example}.", example="{% set name = value %}", line=tag.line
        )
    if keyword not in ("set", "for") or not _combines(tokens):
        return 0
    assigned = tokens[tokens.index(_EQUALS) :] if keyword == "set" else tokens[1:]
    names = len(_mentioned(assigned))
    # Converting a list to text escapes its quotes and backslashes, which doubles them.
    return max(names - 1, 0) + (_list_levels(assigned) if names else 0)


def _growth(tag: Tag) -> int:
    """Return the factor by which the result of one expression can be larger than its largest value."""
    if not _combines(tag.tokens):
        return 1
    return max(len(_mentioned(tag.tokens)), 1) << _list_levels(tag.tokens)


def _combines(tokens: list[Token]) -> bool:
    return any(token.kind == "operator" and token.text in ("~", "+", ",", "[") for token in tokens)


def _mentioned(tokens: list[Token]) -> list[Token]:
    return [
        token
        for before, token in pairwise([Token("", ""), *tokens])
        if token.kind == "name" and token.text not in _KEYWORDS and before.text not in (".", "|")
    ]


def _list_levels(tokens: list[Token]) -> int:
    """Return the maximum nesting of lists in the tokens. A parenthesis with a comma may also be a list."""
    has_lists = any(token.kind == "operator" and token.text in ("[", ",") for token in tokens)
    return _bracket_levels(tokens) if has_lists else 0


def _bracket_levels(tokens: list[Token]) -> int:
    depth = deepest = 0
    for token in tokens:
        if token.kind == "operator" and token.text in ("(", "["):
            depth += 1
            deepest = max(deepest, depth)
        elif token.kind == "operator" and token.text in (")", "]"):
            depth -= 1
    return deepest


def _check_expression(tag: Tag) -> None:
    before, last = Token("", ""), Token("", "")
    if _bracket_levels(tag.tokens) > MAX_BRACKETS:
        raise InvalidTemplate(
            "Brackets are nested more than {max_brackets} levels deep.", line=tag.line, max_brackets=MAX_BRACKETS
        )
    for token in tag.tokens:
        if token.kind == "operator" and token.text in ("*", "**", "{"):
            raise InvalidTemplate("{text} is not available in templates.", line=tag.line, text=token.text)
        if token.kind == "name" and last.text == "|" and last.kind == "operator" and token.text not in _FILTERS:
            raise InvalidTemplate("There is no filter {text}.", line=tag.line, text=token.text[:60])
        if token == _OPEN:
            _check_call(before, last, tag.line)
        before, last = last, token


def _check_call(before: Token, called: Token, line: int) -> None:
    """Raise for a forbidden call. A parenthesis after a name is a call; after an operator it only groups."""
    is_operator = before.kind == "operator"
    if called.kind == "name":
        allowed = FUNCTIONS | _KEYWORDS
        if is_operator and before.text == ".":
            allowed = _METHODS
        elif is_operator and before.text == "|":
            allowed = _FILTERS
        if called.text not in allowed and before.text not in ("is", "not"):
            raise InvalidTemplate("{text}() is not available in templates.", line=line, text=called.text[:60])
    elif called.text in (")", "]") or called.kind == "string":
        raise InvalidTemplate("Only functions can be called.", line=line)
