"""Find the messages of a template and replace them by their translations, before the template is compiled.

A message is a run of text between block elements and statements. `{{ expressions }}` become named placeholders, inline
elements become markers: `Sent to <1>{name}</1>.` Attributes that people read and string constants of expressions are
messages too, and `{{ "Source" | context("code") }}` is a word with two meanings. Extraction and translation run the
same code, so that each extracted message is also found.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from itertools import groupby
from typing import Any, Final

from jinja2 import Environment, nodes
from jinja2.visitor import NodeTransformer

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import message_key

# Returns the translation of a message, or None if there is none.
Find = Callable[[str], str | None]

_STRING: Final = r'"(?:\\.|[^"\\])*"|' + r"'(?:\\.|[^'\\])*'"
_JINJA: Final = rf"\{{#.*?#\}}|\{{%(?:{_STRING}|[^\"'])*?%\}}|\{{\{{(?:{_STRING}|[^\"'])*?\}}\}}"
_TOKEN: Final = re.compile(
    rf"(?P<jinja>{_JINJA})|(?P<comment><!--.*?-->)|(?P<tag><(?P<close>/?)(?P<name>[a-z!][\w-]*))", re.S | re.I
)
_IN_TAG: Final = re.compile(rf"(?:{_JINJA})|(?P<quote>[\"'])|(?P<end>>)", re.S)
_ATTRIBUTE: Final = re.compile(
    rf"(?P<jinja>{_JINJA})|(?P<name>[\w:-]+)=(?P<quote>[\"'])(?P<value>(?:{_JINJA}|(?!(?P=quote)).)*)(?P=quote)", re.S
)
_EXPRESSION: Final = re.compile(r"\{\{([-+]?)(.*?)([-+]?)\}\}", re.S)
_PART: Final = re.compile(r"(</?\w+>|\{\w+\})")
_SPACE: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r"[^\W\d_]{2}")
# A single word like this is a name, an address or a value, and the same in every language.
_VALUE: Final = re.compile(r"\S*[@/_=\\]\S*|\S+[.:]\S+|[A-Z]{2,}\d*|[a-z]+[A-Z]\w*")
_CODE: Final = re.compile(r"<(code|kbd|pre)>.*?</\1>", re.S)
# Names that every language keeps.
_NAMES_OF_PRODUCTS: Final = re.compile(r"\b(?:Mailwright|Notion|Markdown|MJML|HTML|JSON|Ctrl K)\b")

_INLINE: Final = frozenset(
    [
        "a",
        "abbr",
        "b",
        "bdi",
        "br",
        "cite",
        "code",
        "em",
        "i",
        "kbd",
        "mark",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "sup",
        "time",
        "u",
        "var",
        "wbr",
    ]
)
_VOID: Final = frozenset({"br", "wbr"})
_OPAQUE: Final = frozenset({"script", "style", "pre", "textarea"})
_READ: Final = frozenset(
    [
        "title",
        "placeholder",
        "alt",
        "label",
        "aria-label",
        "aria-description",
        "aria-roledescription",
        "aria-valuetext",
        "data-label",
        "data-confirm",
        "data-placeholder",
        "data-empty",
        "hx-confirm",
    ]
)
# Macros and functions that create a separate element, which is not part of the surrounding sentence.
_OWN_ELEMENT: Final = re.compile(
    r"\{\{[-+]?\s*(?:icon|caller|super|(?:ui|shared|self)\.(?!link\b|copyable\b)\w+|\w+\.(?:token|icon))\("
)


def translate_source(source: str, find: Find) -> str:
    """Return the source of a template with its text and attributes translated."""
    translated: list[str] = []
    for is_inline, run in groupby(_tokens(source), key=lambda token: token.is_inline):
        if is_inline:
            translated.extend(_translate_segment(segment, find) for segment in _segments(list(run)))
        else:
            translated.extend(_translate_tag(token, find) for token in run)
    return "".join(translated)


def translate_tree(tree: nodes.Template, find: Find, find_count: Callable[[str, str], object]) -> nodes.Template:
    """Translate the string constants of a parsed template."""
    return _Constants(find, find_count).visit(tree)  # type: ignore[no-any-return]


class TranslatedEnvironment(Environment):
    """An environment whose templates are translated when they are compiled. Rendering costs the same as in English."""

    def __init__(self, find: Find, find_count: Callable[[str, str], object] = lambda one, many: None, **options: Any):
        super().__init__(**options)
        self._find, self._find_count = find, find_count

    def compile(self, source: Any, name: Any = None, filename: Any = None, *rest: Any, **options: Any) -> Any:
        if isinstance(source, str):
            tree = self.parse(translate_source(source, self._find), name, filename)
            source = translate_tree(tree, self._find, self._find_count)
        return super().compile(source, name, filename, *rest, **options)


# Text and elements.


@dataclass(slots=True)
class _Token:
    kind: str  # text, expression, open, close, element, break
    source: str
    name: str = ""
    children: list["_Token"] = field(default_factory=list)
    end: str = ""  # the closing tag of an element

    @property
    def is_inline(self) -> bool:
        return self.kind != "break"


def _tokens(source: str) -> Iterator[_Token]:
    at = 0
    while match := _TOKEN.search(source, at):
        if match.start() > at:
            yield _Token("text", source[at : match.start()])
        if match["tag"] is None:
            at = match.end()
            yield _jinja_token(match[0]) if match["jinja"] else _Token("break", match[0])
            continue
        at = _tag_end(source, match.end())
        name, tag = match["name"].lower(), source[match.start() : at]
        if name in _OPAQUE and not match["close"]:
            yield _Token("break", tag, name)
            close = re.compile(rf"</{name}", re.I).search(source, at)
            end = close.start() if close else len(source)
            yield _Token("break", source[at:end])
            at = end
        elif name not in _INLINE or re.search(r'class="[^"]*\bbutton\b', tag):
            yield _Token("break", tag, name)
        else:
            yield _Token("text" if name in _VOID else "close" if match["close"] else "open", tag, name)
    if at < len(source):
        yield _Token("text", source[at:])


def _jinja_token(source: str) -> _Token:
    is_part = source.startswith("{{") and not _OWN_ELEMENT.match(source)
    return _Token("expression" if is_part else "break", source)


def _tag_end(source: str, at: int) -> int:
    quote = None
    while match := _IN_TAG.search(source, at):
        at = match.end()
        if match["quote"] and quote in (None, match["quote"]):
            quote = None if quote else match["quote"]
        elif match["end"] and quote is None:
            return at
    return len(source)


def _segments(run: list[_Token]) -> Iterator[list[_Token]]:
    """Split a run at elements that begin or end outside it, and nest the others."""
    root: list[_Token] = []
    stack = [_Token("element", "", "", root)]
    for token in run:
        if token.kind == "open":
            stack.append(_Token("element", token.source, token.name))
        elif token.kind == "close" and len(stack) > 1 and stack[-1].name == token.name:
            element = stack.pop()
            element.end = token.source
            stack[-1].children.append(element)
        elif token.kind == "close":
            stack[-1].children.append(_Token("break", token.source))
        else:
            stack[-1].children.append(token)
    while len(stack) > 1:
        element = stack.pop()
        stack[-1].children += [_Token("break", element.source), *element.children]
    yield from _split(root)


def _translate_segment(segment: list[_Token], find: Find) -> str:
    first = next((at for at, token in enumerate(segment) if not _is_margin(token)), len(segment))
    last = next((at for at in range(len(segment), first, -1) if not _is_margin(segment[at - 1])), first)
    if first or last < len(segment):
        before, after = (_join(part, find) for part in (segment[:first], segment[last:]))
        return f"{before}{_translate_segment(segment[first:last], find) if first < last else ''}{after}"
    if not any(token.kind == "text" and _WORD.search(_bare(token.source)) for token in segment):
        return _join(segment, find)
    names = _Names("".join(token.source for token in segment if token.kind == "text"))
    message = _SPACE.sub(" ", "".join(_show(token, names) for token in segment))
    text = find(message.strip()) if is_prose(message) else None
    if text is None:
        return "".join(_original(token, find) for token in segment)
    start, end = (message[: len(message) - len(message.lstrip())], message[len(message.rstrip()) :])
    return start + "".join(names.restore(part, find) for part in _PART.split(text)) + end


def _is_margin(token: _Token) -> bool:
    """Return whether a token at the edge of a segment is no part of its message."""
    match token.kind:
        case "break":
            return True
        case "text":
            return not token.source.strip()
        case "element":
            return not token.children
    return False


def _bare(text: str) -> str:
    return re.sub(r"&\w+;|&#\w+;|<\w+>", " ", text)


def _join(segment: Iterable[_Token], find: Find) -> str:
    """Translate the elements of a segment that contains no text itself."""
    parts = []
    for token in segment:
        if token.kind == "element":
            inside = "".join(_translate_segment(each, find) for each in _split(token.children))
            parts.append(f"{_translate_tag(token, find)}{inside}{token.end}")
        else:
            parts.append(_original(token, find))
    return "".join(parts)


def _split(children: list[_Token]) -> Iterator[list[_Token]]:
    for _, segment in groupby(children, key=lambda token: token.is_inline):
        yield list(segment)


def _original(token: _Token, find: Find) -> str:
    if token.kind == "expression":
        return _as_text(token.source)
    return f"{_translate_tag(token, find)}{''.join(_original(each, find) for each in token.children)}{token.end}"


def _as_text(expression: str) -> str:
    """Mark an expression whose result people read, so that all its constants are messages."""
    return _EXPRESSION.sub(r"{{\1 (\2) | as_text \3}}", expression) if re.search("[\"']", expression) else expression


class _Names:
    """The placeholders and markers of one message."""

    def __init__(self, text: str) -> None:
        self._taken: dict[str, str] = dict.fromkeys(re.findall(r"\{(\w+)\}", text), "")
        self._tags: dict[str, str] = {}

    def placeholder(self, expression: str, wish: str) -> str:
        name, number = wish, 1
        while self._taken.get(name, expression) != expression:
            number += 1
            name = f"{wish}{number}"
        self._taken[name] = expression
        return f"{{{name}}}"

    def marker(self, element: _Token) -> str:
        if element.source == f"<{element.name}>":
            name = element.name
        else:
            name = str(sum(each.isdigit() for each in self._tags) + 1)
        self._tags[name] = element.source
        return name

    def restore(self, part: str, find: Find) -> str:
        if part.startswith("{") and (expression := self._taken.get(part[1:-1])):
            return _as_text(expression)
        name = part.strip("</>")
        if not part.startswith("<") or name not in self._tags:
            return part
        element = self._tags[name]
        tag = re.match(r"<([\w-]+)", element)
        return f"</{tag[1]}>" if part.startswith("</") and tag else _translate_attributes(element, find)


def _show(token: _Token, names: _Names) -> str:
    match token.kind:
        case "expression":
            return names.placeholder(token.source, _expression_name(token.source))
        case "element":
            name = names.marker(token)
            return f"<{name}>{''.join(_show(each, names) for each in token.children)}</{name}>"
    return token.source


_NAME: Final = re.compile(r"(?<![\w.|])(?<!\| )([a-z_]\w*(?:\.\w+)*)(?![\w.]*\s*\()(?!\s*=[^=])", re.I)
_KEYWORDS: Final = frozenset(
    ["if", "else", "not", "and", "or", "in", "is", "none", "true", "false", "None", "True", "False"]
)


def _expression_name(expression: str) -> str:
    bare = re.sub(_STRING, "", expression)
    found = [name for name in _NAME.findall(bare) if name not in _KEYWORDS]
    if not found:
        found = re.findall(r"[a-z_][\w.]*", bare, re.I)
    return found[0].rpartition(".")[2].strip("_") or "value" if found else "value"


# Attributes.


def _translate_tag(token: _Token, find: Find) -> str:
    return _translate_attributes(token.source, find) if token.name else token.source


def _translate_attributes(tag: str, find: Find) -> str:
    is_button = tag.startswith("<input") and re.search(r'type="(submit|button)"', tag)

    def translate(match: re.Match[str]) -> str:
        name, quote, value = match["name"], match["quote"], match["value"]
        if match["jinja"] or (name not in _READ and not (is_button and name == "value")):
            return match[0]
        tokens = [_jinja_token(part) if part.startswith("{") else _Token("text", part) for part in _parts(value)]
        escape = "&quot;" if quote == '"' else "&#39;"

        def find_escaped(message: str) -> str | None:
            text = find(message)
            return text.replace(quote, escape) if text is not None else None

        segments = (list(each) for _, each in groupby(tokens, key=lambda token: token.is_inline))
        return f"{name}={quote}{''.join(_translate_segment(each, find_escaped) for each in segments)}{quote}"

    return _ATTRIBUTE.sub(translate, tag)


def _parts(value: str) -> Iterator[str]:
    at = 0
    for match in re.finditer(_JINJA, value, re.S):
        if match.start() > at:
            yield value[at : match.start()]
        yield match[0]
        at = match.end()
    if at < len(value):
        yield value[at:]


# Constants of expressions.

# Functions and methods whose arguments are names, not texts.
_NAMING: Final = frozenset(
    [
        "icon",
        "asset",
        "may",
        "status_style",
        "with_query",
        "startswith",
        "endswith",
        "removeprefix",
        "removesuffix",
        "split",
        "replace",
        "strip",
        "get",
        "deferral_label",
        "has_end",
        "time",
        "token",
        "is_at",
        "namespace",
        "items_for",
        "ab_test_metric",
    ]
)
_NAMING_KEYWORDS: Final = frozenset(
    [
        "type",
        "id",
        "tone",
        "icon_name",
        "autocomplete",
        "form",
        "inputmode",
        "name",
        "href",
        "action",
        "list",
        "editor",
        "parameter",
        "attribute",
        "fields",
        "class",
        "errors",
        "value",
        "sort",
    ]
)
_TEXT_FILTERS: Final = frozenset({"default", "d", "join"})
# Addresses, classes, triggers of htmx and formats.
_NO_TEXT: Final = re.compile(
    r"^(?:[/?.<%\[]|\{\{|is-|http|[a-z]+-$|\w+\[|,? ?(?:load|change|click|input|every|submit)\b)|\bis-\w|:\w+;"
)
# Constants that look like text and are names, used as keys or sent to the server.
NOT_TEXT: Final[frozenset[str]] = frozenset()


# An attribute of HTML, or several parameters of a URL.
_ASSIGNMENT: Final = re.compile(r'^[\w:-]+="|&\w+=')


def is_prose(text: str) -> bool:
    """Return whether a message has words that differ between languages."""
    bare = _PART.sub(" ", _NAMES_OF_PRODUCTS.sub(" ", _CODE.sub(" ", _bare(text)))).strip()
    return bool(_WORD.search(bare)) and not _VALUE.fullmatch(bare) and not _ASSIGNMENT.search(text.strip())


def looks_like_text(constant: str) -> bool:
    text = constant.strip().removeprefix("#")
    if text in NOT_TEXT or not is_prose(text) or _NO_TEXT.search(text):
        return False
    return text[0].isupper() or bool(re.search(r"\w\S* \S*\w", text))


class _Constants(NodeTransformer):
    def __init__(self, find: Find, find_count: Callable[[str, str], object]) -> None:
        self._find, self._find_count = find, find_count

    def visit_Const(self, node: nodes.Const) -> nodes.Expr:  # noqa: N802 - named by Jinja
        return self._constant(node) if isinstance(node.value, str) and looks_like_text(node.value) else node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        return self._concatenation(node, looks_like_text)

    def visit_Filter(self, node: nodes.Filter) -> nodes.Expr:  # noqa: N802
        if node.name == "as_text" and node.node is not None:
            return self._text(node.node)
        if node.name == "context" and isinstance(node.node, nodes.Const) and isinstance(node.args[0], nodes.Const):
            return self._constant(node.node, node.args[0].value)
        if node.name in {"count", "strong_count"} and isinstance(node.args[0], nodes.Const):
            self._find_count(*_forms(node.args))
        if node.node is not None:
            node.node = self.visit(node.node)
        if node.name in _TEXT_FILTERS:
            node.args = [self._text(each) for each in node.args]
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Expr:  # noqa: N802
        called = node.node.name if isinstance(node.node, nodes.Name) else getattr(node.node, "attr", "")
        if called == "total" and isinstance(node.args[1], nodes.Const):
            self._find_count(*_forms(node.args[1:2]))
        if called == "format" and isinstance(node.node, nodes.Getattr):
            node.node = self.visit(node.node)
        if called not in _NAMING:
            node.args = [self.visit(each) for each in node.args]
            for keyword in node.kwargs:
                if keyword.key not in _NAMING_KEYWORDS:
                    keyword.value = self.visit(keyword.value)
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802
        return node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Getitem:  # noqa: N802
        node.node = self.visit(node.node)
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Pair:  # noqa: N802
        node.value = self.visit(node.value)
        return node

    def _skip(self, node: nodes.Node) -> nodes.Node:
        return node

    visit_Test = visit_Extends = visit_Include = visit_Import = visit_FromImport = _skip  # noqa: N815

    def _text(self, node: nodes.Expr) -> nodes.Expr:
        """Translate an expression whose result people read: all its constants are messages, even if they look like
        names.
        """
        match node:
            case nodes.Const(value=str() as value) if is_prose(value):
                return self._constant(node)
            case nodes.CondExpr():
                node.expr1 = self._text(node.expr1)
                node.expr2 = self._text(node.expr2) if node.expr2 is not None else None
                return node
            case nodes.Or():
                node.left, node.right = self._text(node.left), self._text(node.right)
                return node
            case nodes.Concat():
                return self._concatenation(node, is_prose)
        return self.visit(node)  # type: ignore[no-any-return]

    def _constant(self, node: nodes.Const, context: str = "") -> nodes.Expr:
        text = node.value.strip()
        start = node.value[: len(node.value) - len(node.value.lstrip())]
        if text.startswith("#"):  # The column of a table that holds numbers.
            start, text = f"{start}#", text[1:]
        end = node.value[len(node.value.rstrip()) :]
        translation = self._find(message_key(text, context))
        return node if translation is None else nodes.Const(f"{start}{translation}{end}", lineno=node.lineno)

    def _concatenation(self, node: nodes.Concat, is_message: Callable[[str], bool]) -> nodes.Expr:
        parts = {}
        names = _Names("")
        message = ""
        for number, each in enumerate(node.nodes):
            if isinstance(each, nodes.Const) and isinstance(each.value, str):
                message += each.value
            else:
                placeholder = names.placeholder(str(number), _node_name(each))
                parts[placeholder] = each
                message += placeholder
        if not is_message(message) or (message.startswith("{") and re.match(r"\{\w+\}[/?&#-]", message)):
            node.nodes = [each if isinstance(each, nodes.Const) else self.visit(each) for each in node.nodes]
            return node
        text = self._find(message.strip())
        for placeholder, each in parts.items():
            parts[placeholder] = self._text(each)
        if text is None:
            shown = list(parts.values())
            node.nodes = [each if isinstance(each, nodes.Const) else shown.pop(0) for each in node.nodes]
            return node
        start, end = message[: len(message) - len(message.lstrip())], message[len(message.rstrip()) :]
        pieces = [each for each in _PART.split(f"{start}{text}{end}") if each]
        return nodes.Concat([parts.get(each) or nodes.Const(each) for each in pieces], lineno=node.lineno)


def _forms(words: list[nodes.Expr]) -> tuple[str, str]:
    """Return the singular and the plural of the message that the filter `count` shows."""
    one, *many = [str(each.value) for each in words if isinstance(each, nodes.Const)]
    return f"{{count}} {one}", f"{{count}} {many[0] if many else f'{one}s'}"


def _node_name(node: nodes.Node) -> str:
    match node:
        case nodes.Name(name=name):
            return str(name)
        case nodes.Getattr(attr=attr):
            return str(attr)
        case nodes.Filter(node=inner) if inner is not None:
            return _node_name(inner)
        case nodes.Call(args=[first, *_]) if not isinstance(first, nodes.Const):
            return _node_name(first)
        case nodes.Call(node=inner) | nodes.Getitem(node=inner) | nodes.CondExpr(expr1=inner):
            return _node_name(inner)
    return "value"
