"""Preflight: what a reader or a mailbox provider would mind about a mail, found before it goes to anyone.

Pure: facts that need a network or a database are handed in. What blocks would harm every reader; the rest is told.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from mailwright.content import subject as subject_rules
from mailwright.content import text as plain_text
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_markers import codes_in, replace_code
from mailwright.content.variables import STANDARD_VARIABLES

# Gmail shows no more than this of a mail's HTML, and hides the rest behind a link.
CLIPPED_BYTES = 102 * 1024
# What phones show of a subject.
LONG_SUBJECT = 70
# Fewer letters in capitals than this are a name or an abbreviation.
FEWEST_CAPITALS = 8


class IssueLevel(StrEnum):
    ERROR = "blocks"
    WARNING = "warns"


@dataclass(frozen=True, slots=True)
class PresendIssue:
    level: IssueLevel
    code: str
    sentence: str
    where: str  # subject, html, text or sender


ISSUE_LEVELS: Mapping[str, IssueLevel] = {
    "INVALID_TEMPLATE": IssueLevel.ERROR,
    "UNKNOWN_VARIABLE": IssueLevel.ERROR,
    "NO_UNSUBSCRIBE_LINK": IssueLevel.WARNING,
    "EMPTY_SUBJECT": IssueLevel.ERROR,
    "SUBJECT_TOO_LONG": IssueLevel.ERROR,
    "BROKEN_LINK": IssueLevel.ERROR,
    "RELATIVE_LINK": IssueLevel.ERROR,
    "BROKEN_IMAGE": IssueLevel.ERROR,
    "NO_UNSUBSCRIBE_LINK_IN_TEXT": IssueLevel.WARNING,
    "NO_POSTAL_ADDRESS": IssueLevel.WARNING,
    "EMPTY_TEXT": IssueLevel.WARNING,
    "EMPTY_LINK": IssueLevel.WARNING,
    "LOCAL_LINK": IssueLevel.WARNING,
    "DEAD_LINK": IssueLevel.WARNING,
    "SHORTENED_LINK": IssueLevel.WARNING,
    "MISLEADING_LINK": IssueLevel.WARNING,
    "IMAGE_WITHOUT_ALT": IssueLevel.WARNING,
    "INSECURE_IMAGE": IssueLevel.WARNING,
    "INLINE_IMAGE": IssueLevel.WARNING,
    "UNSUPPORTED_ELEMENT": IssueLevel.WARNING,
    "CLIPPED": IssueLevel.WARNING,
    "LONG_SUBJECT": IssueLevel.WARNING,
    "CAPITALS": IssueLevel.WARNING,
    "EXCLAMATION_MARKS": IssueLevel.WARNING,
    "PRETENDED_REPLY": IssueLevel.WARNING,
    "SENDER_NOT_TRUSTED": IssueLevel.WARNING,
}


@dataclass(frozen=True, slots=True)
class PresendContext:
    """What the content itself does not say."""

    is_bulk: bool = True
    postal_address: str | None = None
    variables: frozenset[str] | None = None  # all that will be given; None where that is not known here
    sender: tuple[str, ...] = ()  # what DNS says against the sender's domain, a sentence each


# Each of these is a thing to do of its own; of the others, the first stands for all.
_EACH = frozenset(["UNKNOWN_VARIABLE", "BROKEN_LINK", "RELATIVE_LINK", "BROKEN_IMAGE", "SENDER_NOT_TRUSTED"])
_VALUE, _STATEMENT = "mwvalue", "mwstatement"
_BLANK = re.compile(r"\s")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_HOST = re.compile(r"(?:[^\W_](?:[\w-]*[^\W_])?\.)*[^\W_](?:[\w-]*[^\W_])?\.?|[0-9a-f:.]*:[0-9a-f:.]*", re.IGNORECASE)
_LOCAL = re.compile(
    r"localhost|[^.:]+|.+\.(?:localhost|local|internal|test|invalid)|127\..+|10\..+|192\.168\..+|::1", re.IGNORECASE
)
_SHORTENERS = frozenset(
    ["bit.ly", "tinyurl.com", "t.co", "goo.gl", "ow.ly", "is.gd", "buff.ly", "cutt.ly", "rb.gy", "clck.ru"]
)
_ADDRESS_AS_WORDS = re.compile(r"(?:https?://)?((?:[a-z0-9-]+\.)+[a-z]{2,24})(?:[/?#]\S*)?", re.IGNORECASE)
_REPLY = re.compile(r"(?:re|fwd?|aw|wg|enc|res)\s*:", re.IGNORECASE)
# Four to six digits beside a word with a capital, or the form of the United Kingdom, Canada and Portugal.
_POSTAL_CODE = re.compile(
    r"\b\d{4,6}(?:-\d{3,4})?,? +[A-ZÀ-ÞА-Я]|\b[A-ZÀ-ÞА-Я][\w.-]{1,40},? +(?:[A-Z]{2} +)?\d{5,6}(?:-\d{4})?\b"
    r"|\b[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}\b|\b[A-Z]\d[A-Z] \d[A-Z]\d\b"
)


def run_presend_checks(
    *, subject: str, html: str | None, text: str | None, facts: PresendContext
) -> list[PresendIssue]:
    """What blocks comes first. Each kind of finding is told once, with the first place and how many there are."""
    try:
        template = Template(subject=subject, html=html, text=text)
    except InvalidTemplate as error:
        return [presend_issue("INVALID_TEMPLATE", str(error), "html")]
    found = [
        *_variables(template, facts),
        *_subject(subject),
        *(_leaving(html, text) if facts.is_bulk else ()),
        *(_address(html, text, facts) if facts.is_bulk else ()),
        *_text(html, text),
        *(_html(html) if html is not None else ()),
        *(presend_issue("SENDER_NOT_TRUSTED", sentence, "sender") for sentence in facts.sender),
    ]
    return sorted(_together(found), key=lambda each: each.level is not IssueLevel.ERROR)


def presend_issue(code: str, sentence: str, where: str) -> PresendIssue:
    return PresendIssue(ISSUE_LEVELS[code], code, sentence, where)


def links_of(html: str) -> list[str]:
    """The addresses that can be asked whether they are there: those that are the same for every reader."""
    hrefs = (_attribute(node, "href") for node in _parsed(html).css("a[href], area[href]"))
    return list(
        dict.fromkeys(href for href in hrefs if href.startswith(("http://", "https://")) and not _has_code(href))
    )


def _variables(template: Template, facts: PresendContext) -> Iterator[PresendIssue]:
    if facts.variables is None:
        return
    for name in sorted(template.required_variables - facts.variables - STANDARD_VARIABLES.keys()):
        parts = (("subject", template.subject), ("html", template.html), ("text", template.text))
        where = next(part for part, source in parts if source is not None and name in source.variables)
        yield presend_issue("UNKNOWN_VARIABLE", f"{{{{ {name} }}}} is used, and nobody gives it", where)


def _subject(subject: str) -> Iterator[PresendIssue]:
    fixed = _without_code(subject)
    if not subject.strip():
        yield presend_issue("EMPTY_SUBJECT", "the subject is empty", "subject")
    if len(fixed) > subject_rules.MAX_CHARACTERS:
        words = f"the subject has more than {subject_rules.MAX_CHARACTERS} characters"
        yield presend_issue("SUBJECT_TOO_LONG", words, "subject")
    elif len(fixed) > LONG_SUBJECT:
        words = f"the subject has {len(fixed)} characters; phones show about {LONG_SUBJECT}"
        yield presend_issue("LONG_SUBJECT", words, "subject")
    if _is_shouted(fixed):
        yield presend_issue("CAPITALS", "the subject is in capitals, which filters take for spam", "subject")
    if "!!" in fixed or fixed.count("!") > 2:
        yield presend_issue("EXCLAMATION_MARKS", "the subject has several exclamation marks", "subject")
    if _REPLY.match(fixed):
        yield presend_issue(
            "PRETENDED_REPLY", "the subject looks like a reply or a forwarded mail, and is neither", "subject"
        )


def _leaving(html: str | None, text: str | None) -> Iterator[PresendIssue]:
    if html is not None and not _uses(html, "unsubscribe_url"):
        words = (
            "no link to unsubscribe: a campaign gets one at its end; {{ unsubscribe_url }} puts it where you want it"
        )
        yield presend_issue("NO_UNSUBSCRIBE_LINK", words, "html")
    if text is not None and not _uses(text, "unsubscribe_url"):
        code = "NO_UNSUBSCRIBE_LINK_IN_TEXT" if html is not None else "NO_UNSUBSCRIBE_LINK"
        yield presend_issue(code, "the text has no {{ unsubscribe_url }}", "text")


def _address(html: str | None, text: str | None, facts: PresendContext) -> Iterator[PresendIssue]:
    """Many countries ask for it in bulk mail. Without a setting we can only look for what might be one."""
    content = html if html is not None else text or ""
    if _uses(content, "postal_address"):
        if not facts.postal_address:
            words = "{{ postal_address }} is used, and MAILWRIGHT_POSTAL_ADDRESS is not set"
            yield presend_issue("NO_POSTAL_ADDRESS", words, "html")
        return
    words_of_mail = " ".join((plain_text.from_html(html) if html is not None else content).split())
    known = " ".join((facts.postal_address or "").split())
    if not (known in words_of_mail if known else _POSTAL_CODE.search(words_of_mail)):
        words = "there seems to be no postal address, which the law of many countries asks for: {{ postal_address }}"
        yield presend_issue("NO_POSTAL_ADDRESS", words, "html")


def _text(html: str | None, text: str | None) -> Iterator[PresendIssue]:
    readable = text if text is not None else plain_text.from_html(_marked(html or ""))
    if not readable.replace(_STATEMENT, "").strip():
        yield presend_issue("EMPTY_TEXT", "there is nothing to read without images and HTML", "text")
    elif _is_shouted(_without_code(readable)):
        yield presend_issue("CAPITALS", "most of the text is in capitals, which filters take for spam", "text")


def _html(html: str) -> Iterator[PresendIssue]:
    if (size := len(html.encode("utf-8", "replace"))) > CLIPPED_BYTES:
        words = f"the HTML has {size // 1024} KB; Gmail cuts mails off at {CLIPPED_BYTES // 1024} KB"
        yield presend_issue("CLIPPED", words, "html")
    tree = _parsed(html)
    for node in tree.css("a[href], area[href]"):
        yield from _link(node)
    for node in tree.css("img"):
        yield from _image(node)
    for node in tree.css("form, video, audio, iframe, object, embed"):
        yield presend_issue("UNSUPPORTED_ELEMENT", f"most mail programs leave out <{node.tag}>", "html")


def _link(node: LexborNode) -> Iterator[PresendIssue]:
    href = _attribute(node, "href")
    shown = _short(href)
    if _has_code(href):
        return
    if not href or href == "#":
        words = node.text(strip=True)[:40] or "without words"
        yield presend_issue("EMPTY_LINK", f"a link ({words}) leads nowhere", "html")
        return
    if href.startswith("#"):
        return
    scheme, separator, rest = href.partition(":")
    if not separator or not _SCHEME.fullmatch(scheme):
        yield presend_issue("RELATIVE_LINK", f"the link {shown} has no https:// and leads nowhere in a mail", "html")
    elif scheme.lower() in ("http", "https"):
        yield from _web_link(node, href)
    elif scheme.lower() not in ("mailto", "tel", "sms") or not rest.strip():
        yield presend_issue("BROKEN_LINK", f"the link {shown} is nothing that mail programs can open", "html")


def _web_link(node: LexborNode, href: str) -> Iterator[PresendIssue]:
    host = host_of(href)
    if host is None:
        yield presend_issue("BROKEN_LINK", f"the link {_short(href)} is no address", "html")
        return
    if _LOCAL.fullmatch(host):
        yield presend_issue("LOCAL_LINK", f"the link {_short(href)} works on this machine or network only", "html")
    if host in _SHORTENERS:
        yield presend_issue("SHORTENED_LINK", f"{host} hides where the link leads, which filters take for spam", "html")
    told = _ADDRESS_AS_WORDS.fullmatch(node.text(strip=True)[:300])
    if told and not _is_same_site(told[1].lower(), host):
        yield presend_issue("MISLEADING_LINK", f"a link says {told[1]} and leads to {host}", "html")


def _image(node: LexborNode) -> Iterator[PresendIssue]:
    source = _attribute(node, "src")
    shown = _short(source) or "without an address"
    if "alt" not in node.attributes:
        words = f'the image {shown} has no alt text; alt="" says that it is only decoration'
        yield presend_issue("IMAGE_WITHOUT_ALT", words, "html")
    if _has_code(source):
        return
    scheme = source.partition(":")[0].lower() if ":" in source else ""
    if scheme == "http":
        yield presend_issue("INSECURE_IMAGE", f"the image {shown} is not loaded over https", "html")
    elif scheme == "data":
        yield presend_issue(
            "INLINE_IMAGE", "an image is written into the HTML (data:), and Gmail does not show it", "html"
        )
    if scheme in ("http", "https"):
        if host_of(source) is None:
            yield presend_issue("BROKEN_IMAGE", f"the image {shown} has no address", "html")
    elif scheme not in ("data", "cid"):
        yield presend_issue("BROKEN_IMAGE", f"the image {shown} is neither uploaded nor an https:// address", "html")


def host_of(url: str) -> str | None:
    """The host of a web address; None where the address is broken."""
    if _BLANK.search(url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
        host = parts.hostname
    except ValueError:
        return None
    return host if host and len(host) <= 253 and _HOST.fullmatch(host) else None


def _together(found: list[PresendIssue]) -> list[PresendIssue]:
    """Fifty images without alt text are one thing to do."""
    first: dict[tuple[str, str], PresendIssue] = {}
    counts: dict[tuple[str, str], int] = {}
    for each in dict.fromkeys(found):
        kind = (each.code, each.where) if each.code not in _EACH else (each.code, each.sentence)
        first.setdefault(kind, each)
        counts[kind] = counts.get(kind, 0) + 1
    return [
        each if counts[kind] == 1 else replace(each, sentence=f"{each.sentence} (and {counts[kind] - 1} more)")
        for kind, each in first.items()
    ]


def _parsed(html: str) -> LexborHTMLParser:
    return LexborHTMLParser(_marked(html))


def _marked(source: str) -> str:
    """With a word in place of template code, whose quotes would end attributes."""
    return replace_code(source, lambda code: _VALUE if code.startswith("{{") else f" {_STATEMENT} ")


def _has_code(value: str) -> bool:
    return _VALUE in value or _STATEMENT in value


def _without_code(text: str) -> str:
    return " ".join(replace_code(text, lambda _: "").split())


def _uses(source: str, variable: str) -> bool:
    return any(re.search(rf"\b{variable}\b", code) for code in codes_in(source))


def _attribute(node: LexborNode, name: str) -> str:
    return (node.attributes.get(name) or "").strip()


def _short(url: str) -> str:
    return url if len(url) <= 60 else f"{url[:57]}…"


def _is_shouted(text: str) -> bool:
    letters = [character for character in text if character.isalpha() and character.upper() != character.lower()]
    capitals = sum(character.isupper() for character in letters)
    return capitals >= FEWEST_CAPITALS and capitals > 0.7 * len(letters)


def _is_same_site(told: str, host: str) -> bool:
    told, host = told.removeprefix("www."), host.lower().removeprefix("www.")
    return told == host or host.endswith(f".{told}") or told.endswith(f".{host}")
