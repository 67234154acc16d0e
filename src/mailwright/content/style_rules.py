"""Read the rules of style elements that hide elements or let them begin a line, as far as the text of an email needs.

Only selectors of one element are read (`.preheader`, `span.preheader`, `#preview`). A rule for small screens, for dark
mode or for Outlook does not apply. The time is linear for any input.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_BRACE = re.compile(r"([{}])")
_MEDIA_ATTRIBUTE = re.compile(r"""\smedia\s*=\s*["']?([^"'>]*)""", re.IGNORECASE)
# Media that every desktop mail program matches.
_ANY_SCREEN = re.compile(r"(?:all|(?:only\s+)?screen|)", re.IGNORECASE)
_CLASS_ATTRIBUTE = re.compile(r"""\[\s*class\s*~?=\s*["']?([\w-]+)["']?\s*\]""", re.IGNORECASE)
_SELECTOR = re.compile(r"(?:(?:html|body)\s+)*+([a-z][a-z0-9]*|\*)?((?:[.#][\w-]+)+)", re.IGNORECASE)
_SIMPLE = re.compile(r"[.#][\w-]+")
_ZERO = re.compile(r"0+(?:\.0*)?(?:px|pt|em|rem|%)?")
_SIZES = ("height", "width", "max-width")
_PROPERTIES = frozenset(
    [*_SIZES, "color", "display", "font-size", "max-height", "mso-hide", "opacity", "overflow", "visibility"]
)
# More rules would make every tag slow. No real email has as many that hide elements.
_MAX_RULES = 100

Styles = Mapping[str, str]


class _Declaration(NamedTuple):
    name: str
    value: str
    is_important: bool


class _Rule(NamedTuple):
    element: str
    names: frozenset[str]  # Classes and ids with their sign.
    declarations: tuple[_Declaration, ...]


class StyleRules:
    """The rules that change the text of an email."""

    __slots__ = ("_by_name", "concern")

    def __init__(self, css: str) -> None:
        self._by_name: dict[str, list[tuple[int, _Rule]]] = {}
        for place, rule in enumerate(_relevant(css)):
            self._by_name.setdefault(min(rule.names), []).append((place, rule))
        names = "|".join(re.escape(name[1:]) for name in self._by_name)
        # Finds tags that can have a rule.
        self.concern = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])" if names else "(?!)")

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def styles(self, element: str, classes: str, identifier: str, style: str) -> Styles | None:
        """Return the styles of an element: those of its names and of its `style` attribute; None if no rule has one."""
        names = {f".{name}" for name in classes.split()}
        if identifier:
            names.add(f"#{identifier}")
        found = [
            (place, rule.declarations)
            for name in names.intersection(self._by_name)
            for place, rule in self._by_name[name]
            if rule.names <= names and rule.element in ("", element)
        ]
        if not found:
            return None
        return _cascade([*(declared for _, declared in sorted(found)), declarations(style)])


def is_for_every_screen(tag: str) -> bool:
    """Return whether the media of a style element are those of every desktop mail program."""
    media = _MEDIA_ATTRIBUTE.search(tag)
    return media is None or _ANY_SCREEN.fullmatch(media[1].strip()) is not None


def styles_of(style: str) -> Styles:
    """Return the styles of a `style` attribute."""
    return _cascade([declarations(style)])


def is_hidden(styles: Styles) -> bool:
    """Return whether an element with these styles shows nothing, as for preview texts and copies for small screens."""
    value = styles.get
    if value("display") == "none" or value("visibility") in ("hidden", "collapse"):
        return True
    if _is_zero(value("opacity")) or _is_zero(value("max-height")):
        return True
    if value("overflow") == "hidden" and any(_is_zero(value(size)) for size in _SIZES):
        return True
    # Cells of MJML have no font size, and Outlook alone hides what has `mso-hide`: only both together hide an element.
    return _is_zero(value("font-size")) and (value("mso-hide") == "all" or value("color") == "transparent")


def declarations(style: str) -> tuple[_Declaration, ...]:
    """Return the declarations that can hide an element or change its lines."""
    found = []
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        name = name.strip().lower()
        if name in _PROPERTIES:
            value, important, _ = value.strip().lower().partition("!")
            found.append(_Declaration(name, value.strip(), bool(important)))
    return tuple(found)


def _cascade(groups: Iterable[tuple[_Declaration, ...]]) -> Styles:
    """Return the value of each property. The last one wins, an important one over all others."""
    values: dict[str, str] = {}
    important: set[str] = set()
    for group in groups:
        for declaration in group:
            if declaration.is_important or declaration.name not in important:
                values[declaration.name] = declaration.value
                if declaration.is_important:
                    important.add(declaration.name)
    return values


def _is_zero(value: str | None) -> bool:
    return value is not None and _ZERO.fullmatch(value) is not None


def _relevant(css: str) -> Iterator[_Rule]:
    """Yield the rules of classes and ids that hide or begin a line in at least one rule, the least specific first."""
    rules = []
    for selectors, body in _style_rules(css):
        declared = declarations(body)
        if not declared:
            continue
        for selector in selectors.split(","):
            if found := _SELECTOR.fullmatch(_CLASS_ATTRIBUTE.sub(r".\1", selector.strip())):
                element, names = (found[1] or "").lower().strip("*"), frozenset(_SIMPLE.findall(found[2]))
                rules.append(_Rule(element, names, declared))
    changed: set[str] = set()
    for rule in rules:
        if is_hidden(_cascade([rule.declarations])) or ("display", "block") in [it[:2] for it in rule.declarations]:
            changed |= rule.names
    relevant = [rule for rule in rules if rule.names & changed]
    yield from sorted(relevant[-_MAX_RULES:], key=_specificity)


def _specificity(rule: _Rule) -> tuple[int, int, bool]:
    ids = sum(name[0] == "#" for name in rule.names)
    return ids, len(rule.names) - ids, bool(rule.element)


def _style_rules(css: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and the declarations of the rules that apply to every screen."""
    applies = [True]  # For each open block of an at-rule, whether its rules apply.
    selectors: str | None = None
    before = ""
    for piece in _BRACE.split(_without_comments(css)):
        if piece == "{":
            prelude = before.rpartition(";")[2].strip()
            if prelude.startswith("@"):
                applies.append(applies[-1] and _applies(prelude))
                selectors = None
            else:
                selectors = prelude
        elif piece == "}":
            if selectors is not None:
                if applies[-1]:
                    yield selectors, before
                selectors = None
            elif len(applies) > 1:
                applies.pop()
        before = piece if piece not in "{}" else ""


def _applies(at_rule: str) -> bool:
    name, _, condition = at_rule.partition(" ")
    return name.lower() == "@media" and _ANY_SCREEN.fullmatch(condition.strip()) is not None


def _without_comments(css: str) -> str:
    if "/*" not in css and "<!--" not in css:
        return css
    parts = css.replace("<!--", "").replace("-->", "").split("/*")
    return parts[0] + "".join(part.partition("*/")[2] for part in parts[1:])
