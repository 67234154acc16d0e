"""Replace template code with markers while parsers run, because parsers would escape, drop or move the code.

Between elements the marker is a comment, which is allowed anywhere; elsewhere it is a word. Before the code is
restored, a check refuses the template unless all markers are present and in order.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from mailwright.content.template import InvalidTemplate


class TemplateCode(NamedTuple):
    text: str
    line: int

    @property
    def is_statement(self) -> bool:
        return not self.text.startswith("{{")


class MarkedSource:
    """Source in which markers replace the template code.

    `with_words` uses words as markers for values in text, because Markdown and MJML do not allow a comment wherever
    a value is allowed.
    """

    def __init__(self, source: str, *, with_words: bool) -> None:
        if is_reserved(source):
            raise InvalidTemplate("The source contains text that Mailwright reserves for markers (mwk…k). Remove it.")
        self._codes: list[TemplateCode] = []
        self._with_words = with_words
        self.source = "".join(self._pieces(source))

    def put_back(self, html: str) -> str:
        return _MARK.sub(lambda match: self._codes[_number(match)].text, html)

    def check(self, html: str, *, may_repeat: bool = False) -> None:
        """Check the markers. `may_repeat` allows repeated markers, because MJML repeats colours and titles."""
        numbers = [_number(match) for match in _MARK.finditer(html)]
        if may_repeat:
            numbers = [number for number in numbers if self._codes[number].is_statement]
        wanted = [number for number, code in enumerate(self._codes) if code.is_statement or not may_repeat]
        if numbers == wanted:
            return
        lost = next((number for number in wanted if number not in numbers), None)
        number = lost
        if number is None:
            number = next((a for a, b in zip(numbers, wanted, strict=False) if a != b), numbers[-1])
        code = self._codes[number]
        raise InvalidTemplate(
            "{code} cannot be used here: it would be lost."
            if lost is not None
            else "{code} cannot be used here: it would be moved.",
            code=_shorten(code.text),
            line=code.line,
        )

    def code(self, number: int) -> str:
        return self._codes[number].text

    def line_at(self, position: int) -> int:
        """Return the line in the author's source for a byte position in the marked source."""
        before = self.source.encode()[:position].decode(errors="ignore")
        return self.put_back(before).count("\n") + 1

    def _pieces(self, source: str) -> Iterator[str]:
        state, quote, line = _TEXT, "", 1
        position = 0
        while start := _START.search(source, position):
            yield source[position : start.start()]
            line += source.count("\n", position, start.start())
            kind, text = str(start.lastgroup), start[0]
            if kind == "code":
                text = source[start.start() : _end_of_code(source, start.start(), line)]
                yield self._mark(TemplateCode(text, line), self._form(TemplateCode(text, line), state, quote))
            elif kind == "style" and state is _TEXT:
                text = source[start.start() : _end_of_style(source, start.end(), line)]
                # A style sheet that contains code stays unchanged.
                yield self._mark(TemplateCode(text, line), "<!--{}-->") if _OPENING.search(text) else text
            else:
                state, quote = _next_context(state, quote, kind, text)
                yield text
            line += text.count("\n")
            position = start.start() + len(text)
        yield source[position:]

    def _form(self, code: TemplateCode, state: str, quote: str) -> str:
        if state is _TEXT:
            return "{}" if self._with_words and not code.is_statement else "<!--{}-->"
        if state is _TAG and not quote and code.is_statement:
            # Parsers reorder attributes, so a condition around attributes would lose them.
            raise InvalidTemplate(
                "{code} must be inside the quotes of an attribute, for example {example}.",
                code=_shorten(code.text),
                example='class="{% if … %}…"',
                line=code.line,
            )
        return "{}"

    def _mark(self, code: TemplateCode, form: str) -> str:
        self._codes.append(code)
        return form.format(f"mwk{len(self._codes) - 1}k")


# This pattern is matched at known positions only, because a search would restart at every brace of a long text.
_CODE = re.compile(
    r"""
    \{%[-+]?\s*raw\s*[-+]?%\} (?: [^{] | \{(?!%[-+]?\s*endraw) )*+ \{%[-+]?\s*endraw\s*[-+]?%\}
  | \{\{ (?: "(?:\\.|[^"\\])*+" | '(?:\\.|[^'\\])*+' | [^"'}] | \}(?!\}) )*+ \}\}
  | \{%(?![-+]?\s*raw\b) (?: "(?:\\.|[^"\\])*+" | '(?:\\.|[^'\\])*+' | [^"'%] | %(?!\}) )*+ %\}
  | \{\# (?: [^\#] | \#(?!\}) )*+ \#\}
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENING = re.compile(r"\{[{%#]")
_STYLE_END = re.compile(r"</style\s*>", re.IGNORECASE)
_START = re.compile(
    r"""
    (?P<code>\{[{%\#]) | (?P<style><style\b) | (?P<comment><!--) | (?P<end>-->)
  | (?P<raw><(?:title|textarea|mj-title|mj-preview|mj-style)\b)
  | (?P<raw_end></(?:title|textarea|mj-title|mj-preview|mj-style)\b)
  | (?P<tag><[a-z/!?]) | (?P<close>>) | (?P<quote>["'])
    """,
    re.VERBOSE | re.IGNORECASE,
)
# Parsers add `=""` to an attribute without a value, and escape a comment in a code block.
_MARK = re.compile(r'<!--mwk(\d+)k-->|&lt;!--mwk(\d+)k--&gt;|mwk(\d+)k(?:="")?')


def is_reserved(text: str) -> bool:
    """Return whether the text contains a marker, so that no source can contain it."""
    return _MARK.search(text) is not None


def find_code(source: str) -> Iterator[str]:
    """Yield every piece of template code in order, and stop at the first one that is not closed."""
    return (source[start:end] for start, end in _spans(source))


def replace_code(source: str, replacement: Callable[[str], str]) -> str:
    pieces, position = [], 0
    for start, end in _spans(source):
        pieces += [source[position:start], replacement(source[start:end])]
        position = end
    return "".join([*pieces, source[position:]])


# The contexts of the source, and the tokens outside of quotes that change the context.
_TEXT, _TAG, _COMMENT, _RAW, _RAW_TAG = "text", "tag", "comment", "raw", "raw tag"
_MOVES = {
    (_TEXT, "comment"): _COMMENT,
    (_COMMENT, "end"): _TEXT,
    (_TEXT, "tag"): _TAG,
    (_TEXT, "raw_end"): _TAG,
    (_TAG, "close"): _TEXT,
    (_TAG, "end"): _TEXT,
    (_TEXT, "raw"): _RAW_TAG,
    (_RAW_TAG, "close"): _RAW,
    (_RAW, "raw_end"): _TAG,
}


def _next_context(state: str, quote: str, kind: str, text: str) -> tuple[str, str]:
    if kind == "quote" and state in (_TAG, _RAW_TAG):
        return state, text if not quote else "" if quote == text else quote
    return (state, quote) if quote else (_MOVES.get((state, kind), state), "")


def _spans(source: str) -> Iterator[tuple[int, int]]:
    position = 0
    while (opening := _OPENING.search(source, position)) and (code := _CODE.match(source, opening.start())):
        yield code.span()
        position = code.end()


def _end_of_code(source: str, start: int, line: int) -> int:
    if code := _CODE.match(source, start):
        return code.end()
    raise InvalidTemplate("A block is not closed.", line=line)


def _end_of_style(source: str, start: int, line: int) -> int:
    if end := _STYLE_END.search(source, start):
        return end.end()
    raise InvalidTemplate("<style> is not closed.", line=line)


def _number(mark: re.Match[str]) -> int:
    return int(mark[1] or mark[2] or mark[3])


def _shorten(code: str) -> str:
    text = " ".join(code.split())
    return text if len(text) <= 60 else f"{text[:57]}…"
