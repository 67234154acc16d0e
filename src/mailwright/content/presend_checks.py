"""Pre-send checks: problems that recipients or mailbox providers would have with an email.

These are pure functions: callers pass in the facts from the network or the database. A problem that would affect every
recipient is an error; all others are warnings.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from mailwright.content import subject as subject_rules
from mailwright.content import text as plain_text
from mailwright.content.personal_links import find_personal_links
from mailwright.content.presend_advice import ADVICE
from mailwright.content.segments_used import segments_used
from mailwright.content.template import InvalidSubject, InvalidTemplate, Template
from mailwright.content.template_markers import find_code, replace_code
from mailwright.content.variables import KNOWN_VARIABLES
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import Limits
from mailwright.domain.translation import lazy_gettext

# The class of an element that contains the postal address of the sender.
POSTAL_ADDRESS_CLASS = "mw-postal-address"
# Gmail clips the HTML of an email after this size.
CLIPPED_BYTES = 102 * 1024
# Phones show about this many characters of a subject.
LONG_SUBJECT = 70
# Fewer capital letters than this may be a name or an abbreviation.
MIN_CAPITALS = 8


class IssueLevel(StrEnum):
    ERROR = "blocks"
    WARNING = "warns"


@dataclass(frozen=True, slots=True)
class PresendIssue:
    level: IssueLevel
    code: str
    sentence: str
    where: str  # subject, html, text, sender, audience, attachments or scheduledAt
    # Where an issue of a template was found first. It is not compared, so that an issue in several languages is
    # reported once.
    locale: str = field(default="", compare=False)
    blocks: tuple[str, ...] = field(default=(), compare=False)  # The IDs of the blocks that have the issue.

    @property
    def advice(self) -> str:
        """How to fix it, unless the sentence says it."""
        return ADVICE.get(self.code, "")


ISSUE_LEVELS: Mapping[str, IssueLevel] = {
    "INVALID_TEMPLATE": IssueLevel.ERROR,
    "BLANK_DESIGN": IssueLevel.ERROR,
    "UNKNOWN_VARIABLE": IssueLevel.ERROR,
    "UNKNOWN_SEGMENT": IssueLevel.ERROR,
    "NO_UNSUBSCRIBE_LINK": IssueLevel.WARNING,
    "EMPTY_SUBJECT": IssueLevel.ERROR,
    "SUBJECT_TOO_LONG": IssueLevel.ERROR,
    "BROKEN_LINK": IssueLevel.ERROR,
    "RELATIVE_LINK": IssueLevel.ERROR,
    "BROKEN_IMAGE": IssueLevel.ERROR,
    "PERSONAL_LINK": IssueLevel.ERROR,
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
    "LOCAL_IMAGE": IssueLevel.WARNING,
    "BRAND_CHANGED": IssueLevel.WARNING,
    "EMPTY_HEADER": IssueLevel.WARNING,
    "UNFINISHED_BLOCK": IssueLevel.WARNING,
    "EMPTY_BLOCK": IssueLevel.WARNING,
    "LOW_CONTRAST": IssueLevel.WARNING,
    "SAMPLE_TEXT": IssueLevel.WARNING,
    "SAMPLE_LINK": IssueLevel.WARNING,
    "INLINE_IMAGE": IssueLevel.WARNING,
    "UNSUPPORTED_ELEMENT": IssueLevel.WARNING,
    "CLIPPED": IssueLevel.WARNING,
    "LONG_SUBJECT": IssueLevel.WARNING,
    "CAPITALS": IssueLevel.WARNING,
    "EXCLAMATION_MARKS": IssueLevel.WARNING,
    "PRETENDED_REPLY": IssueLevel.WARNING,
    "SENDER_NOT_TRUSTED": IssueLevel.WARNING,
    "OUTSIDE_HOURS": IssueLevel.WARNING,
}


@dataclass(frozen=True, slots=True)
class PresendContext:
    """Facts that the content itself does not contain."""

    is_bulk: bool = True
    postal_address: str | None = None
    variables: frozenset[str] | None = None  # All variables that will have a value; None if unknown.
    segments: frozenset[str] | None = None  # The keys of all segments; None if unknown or checked by the caller.
    sender: tuple[str, ...] = ()  # Problems of the sender domain's DNS, one sentence each.
    limits: Limits = field(default_factory=Limits)  # The installation's limits, for tenants without their own.


# Every issue with one of these codes is listed. For other codes, only the first issue is listed.
_LISTED_EACH = frozenset(
    ["UNKNOWN_VARIABLE", "UNKNOWN_SEGMENT", "BROKEN_LINK", "RELATIVE_LINK", "BROKEN_IMAGE", "SENDER_NOT_TRUSTED"]
)
_VALUE, _STATEMENT = "mwvalue", "mwstatement"
_LINK, _ADDRESS = "{{ unsubscribe_url }}", "{{ postal_address }}"
_BLANK = re.compile(r"\s")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_HOST = re.compile(r"(?:[^\W_](?:[\w-]*[^\W_])?\.)*[^\W_](?:[\w-]*[^\W_])?\.?|[0-9a-f:.]*:[0-9a-f:.]*", re.IGNORECASE)
_LOCAL = re.compile(
    r"localhost|[^.:]+|.+\.(?:localhost|local|internal|test|invalid)|127\..+|10\..+|192\.168\..+|::1", re.IGNORECASE
)
_SAMPLE_HOST = re.compile(r"(?:.+\.)?(example\.(?:com|org|net))")
_SHORTENERS = frozenset(
    ["bit.ly", "tinyurl.com", "t.co", "goo.gl", "ow.ly", "is.gd", "buff.ly", "cutt.ly", "rb.gy", "clck.ru"]
)
_ADDRESS_AS_TEXT = re.compile(r"(?:https?://)?((?:[a-z0-9-]+\.)+[a-z]{2,24})(?:[/?#]\S*)?", re.IGNORECASE)
_REPLY = re.compile(r"(?:re|fwd?|aw|wg|enc|res)\s*:", re.IGNORECASE)
# Four to six digits beside a capitalized word, or the postal codes of the United Kingdom, Canada and Portugal.
_POSTAL_CODE = re.compile(
    r"\b\d{4,6}(?:-\d{3,4})?,? +[A-ZÀ-ÞА-Я]|\b[A-ZÀ-ÞА-Я][\w.-]{1,40},? +(?:[A-Z]{2} +)?\d{5,6}(?:-\d{4})?\b"
    r"|\b[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}\b|\b[A-Z]\d[A-Z] \d[A-Z]\d\b"
)


def run_presend_checks(
    *, subject: str, html: str | None, text: str | None, context: PresendContext
) -> list[PresendIssue]:
    """Return all issues, errors first. Most kinds are listed once, with the first occurrence and a count of others."""
    try:
        template = Template(subject=subject, html=html, text=text)
        segments = segments_used(subject, html, text)
    except InvalidTemplate as error:
        where = "subject" if isinstance(error, InvalidSubject) else "html"
        return [presend_issue("INVALID_TEMPLATE", str(error), where)]
    issues = [
        *_variables(template, context),
        *_segments(segments, context),
        *_subject(subject),
        *(_unsubscribe_link(html, text) if context.is_bulk else ()),
        *(_postal_address(html, text, context) if context.is_bulk else ()),
        *_personal_links(html, text),
        *_text(html, text),
        *(_html(html) if html is not None else ()),
        *(presend_issue("SENDER_NOT_TRUSTED", sentence, "sender") for sentence in context.sender),
    ]
    return errors_first(_merge(issues))


def errors_first(issues: Iterable[PresendIssue]) -> list[PresendIssue]:
    return sorted(issues, key=lambda issue: issue.level is not IssueLevel.ERROR)


def presend_issue(code: str, sentence: str, where: str, locale: str = "", blocks: tuple[str, ...] = ()) -> PresendIssue:
    return PresendIssue(ISSUE_LEVELS[code], code, sentence, where, locale, blocks)


def unknown_segment(key: str) -> str:
    """Return the sentence about a condition for a segment that does not exist."""
    return lazy_gettext("The content has a condition for the segment {key}, which does not exist.", key=key)


def links_of(html: str) -> list[str]:
    """Return the links that are the same for every recipient; only these can be checked."""
    hrefs = (_attribute_of(node, "href") for node in _parse_html(html).css("a[href], area[href]"))
    return list(
        dict.fromkeys(href for href in hrefs if href.startswith(("http://", "https://")) and not _has_code(href))
    )


def _variables(template: Template, context: PresendContext) -> Iterator[PresendIssue]:
    if context.variables is None:
        return
    for name in sorted(template.required_variables - context.variables - KNOWN_VARIABLES):
        parts = (("subject", template.subject), ("html", template.html), ("text", template.text))
        where = next(part for part, source in parts if source is not None and name in source.variables)
        sentence = lazy_gettext("{variable} is used, but no value is provided.", variable=f"{{{{ {name} }}}}")
        yield presend_issue("UNKNOWN_VARIABLE", sentence, where)


def _segments(used: Iterable[str], context: PresendContext) -> Iterator[PresendIssue]:
    for key in used:
        if context.segments is not None and key not in context.segments:
            yield presend_issue("UNKNOWN_SEGMENT", unknown_segment(key), "html")


def _subject(subject: str) -> Iterator[PresendIssue]:
    fixed = _without_code(subject)
    if not subject.strip():
        yield presend_issue("EMPTY_SUBJECT", lazy_gettext("The subject is empty."), "subject")
    if len(fixed) > subject_rules.MAX_CHARACTERS:
        sentence = lazy_gettext(
            "The subject has more than {max_characters} characters.", max_characters=subject_rules.MAX_CHARACTERS
        )
        yield presend_issue("SUBJECT_TOO_LONG", sentence, "subject")
    elif len(fixed) > LONG_SUBJECT:
        sentence = lazy_gettext(
            "The subject has {count} characters; phones show about {long_subject}.",
            count=len(fixed),
            long_subject=LONG_SUBJECT,
        )
        yield presend_issue("LONG_SUBJECT", sentence, "subject")
    if _is_shouted(fixed):
        yield presend_issue(
            "CAPITALS", lazy_gettext("The subject is in capitals, which looks like spam to filters."), "subject"
        )
    if "!!" in fixed or fixed.count("!") > 2:
        yield presend_issue("EXCLAMATION_MARKS", lazy_gettext("The subject has several exclamation marks."), "subject")
    if _REPLY.match(fixed):
        yield presend_issue(
            "PRETENDED_REPLY",
            lazy_gettext("The subject looks like a reply or a forwarded email, but is neither."),
            "subject",
        )


def _unsubscribe_link(html: str | None, text: str | None) -> Iterator[PresendIssue]:
    if html is not None and not _uses(html, "unsubscribe_url"):
        sentence = lazy_gettext(
            "No unsubscribe link. Campaigns add one at the end; {variable} puts it where you want it.", variable=_LINK
        )
        yield presend_issue("NO_UNSUBSCRIBE_LINK", sentence, "html")
    if text is not None and not _uses(text, "unsubscribe_url"):
        code = "NO_UNSUBSCRIBE_LINK_IN_TEXT" if html is not None else "NO_UNSUBSCRIBE_LINK"
        yield presend_issue(code, lazy_gettext("The text has no {variable}.", variable=_LINK), "text")


def _personal_links(html: str | None, text: str | None) -> Iterator[PresendIssue]:
    """Find personal links in HTML that was copied from a sent email.

    With them, everyone would act as that one recipient.
    """
    for where, source in (("html", html), ("text", text)):
        for link in find_personal_links(source or ""):
            page = _short(link.page)
            if link.variable:
                sentence = lazy_gettext(
                    "The link {page} belongs to one recipient of a sent email; use {variable} instead.",
                    page=page,
                    variable=f"{{{{ {link.variable} }}}}",
                )
            else:
                sentence = lazy_gettext(
                    "The link {page} belongs to one recipient of a sent email; "
                    "use the address that it leads to instead.",
                    page=page,
                )
            yield presend_issue("PERSONAL_LINK", sentence, where)


def _postal_address(html: str | None, text: str | None, context: PresendContext) -> Iterator[PresendIssue]:
    """Check for a postal address, which many countries require. If the setting is empty, look for a postal code."""
    content = html if html is not None else text or ""
    if f'class="{POSTAL_ADDRESS_CLASS}"' in content:
        return  # The footer block wrote the address of the brand kit.
    if _uses(content, "postal_address"):
        if not context.postal_address:
            sentence = lazy_gettext("{variable} is used, but no postal address is set.", variable=_ADDRESS)
            yield presend_issue("NO_POSTAL_ADDRESS", sentence, "html")
        return
    readable = " ".join((plain_text.from_html(html) if html is not None else content).split())
    known = " ".join((context.postal_address or "").split())
    if not (known in readable if known else _POSTAL_CODE.search(readable)):
        sentence = lazy_gettext(
            "No postal address found. Many countries require one in bulk email: use {variable}.", variable=_ADDRESS
        )
        yield presend_issue("NO_POSTAL_ADDRESS", sentence, "html")


def _text(html: str | None, text: str | None) -> Iterator[PresendIssue]:
    readable = text if text is not None else plain_text.from_html(_without_template_code(html or ""))
    if not readable.replace(_STATEMENT, "").strip():
        yield presend_issue(
            "EMPTY_TEXT", lazy_gettext("The email has no text for recipients who do not see images or HTML."), "text"
        )
    elif _is_shouted(_without_code(readable)):
        yield presend_issue(
            "CAPITALS", lazy_gettext("Most of the text is in capitals, which looks like spam to filters."), "text"
        )


def _html(html: str) -> Iterator[PresendIssue]:
    if (size := len(html.encode("utf-8", "replace"))) > CLIPPED_BYTES:
        sentence = lazy_gettext(
            "The HTML has {size} KB; Gmail clips emails at {clipped_bytes} KB.",
            size=size // 1024,
            clipped_bytes=CLIPPED_BYTES // 1024,
        )
        yield presend_issue("CLIPPED", sentence, "html")
    yield from _sample_links(html)
    tree = _parse_html(html)
    for node in tree.css("a[href], area[href]"):
        yield from _link(node)
    for node in tree.css("img"):
        yield from _image(node)
    for node in tree.css("form, video, audio, iframe, object, embed"):
        yield presend_issue(
            "UNSUPPORTED_ELEMENT", lazy_gettext("Most email programs do not show <{tag}>.", tag=node.tag), "html"
        )


def _sample_links(html: str) -> Iterator[PresendIssue]:
    """Find links to the domains for examples."""
    hosts = [match[1] for link in links_of(html) if (match := _SAMPLE_HOST.fullmatch(host_of(link) or ""))]
    if hosts:
        named = ", ".join(sorted(set(hosts)))
        sentence = (
            lazy_gettext("1 link goes to {hosts}.", hosts=named)
            if len(hosts) == 1
            else lazy_gettext("{count} links go to {hosts}.", count=len(hosts), hosts=named)
        )
        yield presend_issue("SAMPLE_LINK", sentence, "html")


def _link(node: LexborNode) -> Iterator[PresendIssue]:
    href = _attribute_of(node, "href")
    shown = _short(href)
    if _has_code(href):
        return
    if not href or href == "#":
        label = node.text(strip=True)[:40] or lazy_gettext("without text")
        yield presend_issue("EMPTY_LINK", lazy_gettext("A link ({label}) has no target.", label=label), "html")
        return
    if href.startswith("#"):
        return
    scheme, separator, rest = href.partition(":")
    if not separator or not _SCHEME.fullmatch(scheme):
        yield presend_issue(
            "RELATIVE_LINK",
            lazy_gettext("The link {shown} has no https:// and does not work in an email.", shown=shown),
            "html",
        )
    elif scheme.lower() in ("http", "https"):
        yield from _web_link(node, href)
    elif scheme.lower() not in ("mailto", "tel", "sms") or not rest.strip():
        yield presend_issue(
            "BROKEN_LINK", lazy_gettext("Email programs cannot open the link {shown}.", shown=shown), "html"
        )


def _web_link(node: LexborNode, href: str) -> Iterator[PresendIssue]:
    host = host_of(href)
    if host is None:
        yield presend_issue(
            "BROKEN_LINK", lazy_gettext("The link {href} is not a valid URL.", href=_short(href)), "html"
        )
        return
    if _LOCAL.fullmatch(host):
        yield presend_issue(
            "LOCAL_LINK",
            lazy_gettext("The link {href} works only on this machine or network.", href=_short(href)),
            "html",
        )
    if host in _SHORTENERS:
        yield presend_issue(
            "SHORTENED_LINK",
            lazy_gettext("{host} hides the target of the link, which looks like spam.", host=host),
            "html",
        )
    stated = _ADDRESS_AS_TEXT.fullmatch(node.text(strip=True)[:300])
    if stated and not _is_same_site(stated[1].lower(), host):
        yield presend_issue(
            "MISLEADING_LINK",
            lazy_gettext("A link shows {stated} but leads to {host}.", stated=stated[1], host=host),
            "html",
        )


def _image(node: LexborNode) -> Iterator[PresendIssue]:
    source = _attribute_of(node, "src")
    shown = _short(source) or lazy_gettext("without a source")
    if "alt" not in node.attributes:
        sentence = lazy_gettext('The image {shown} has no alt text. Use alt="" for decoration.', shown=shown)
        yield presend_issue("IMAGE_WITHOUT_ALT", sentence, "html")
    if _has_code(source):
        return
    scheme = source.partition(":")[0].lower() if ":" in source else ""
    host = host_of(source) if scheme in ("http", "https") else None
    if host is not None and _LOCAL.fullmatch(host):
        yield presend_issue(
            "LOCAL_IMAGE",
            lazy_gettext(
                "Recipients cannot load the image {shown}, because its address works only on this machine or network.",
                shown=shown,
            ),
            "html",
        )
    elif scheme == "http":
        yield presend_issue(
            "INSECURE_IMAGE", lazy_gettext("The image {shown} is not loaded over https.", shown=shown), "html"
        )
    elif scheme == "data":
        yield presend_issue(
            "INLINE_IMAGE", lazy_gettext("An image is embedded in the HTML (data:). Gmail does not show it."), "html"
        )
    if scheme in ("http", "https"):
        if host is None:
            yield presend_issue(
                "BROKEN_IMAGE", lazy_gettext("The image {shown} is not a valid URL.", shown=shown), "html"
            )
    elif scheme not in ("data", "cid"):
        yield presend_issue(
            "BROKEN_IMAGE",
            lazy_gettext("The image {shown} is neither uploaded nor an https:// URL.", shown=shown),
            "html",
        )


def host_of(url: str) -> str | None:
    """Return the host of a URL, or None if the URL is broken."""
    if _BLANK.search(url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is not a number
        host = parts.hostname
    except ValueError:
        return None
    return host if host and len(host) <= 253 and _HOST.fullmatch(host) else None


def _merge(issues: list[PresendIssue]) -> list[PresendIssue]:
    """Merge repeated issues, so that for example fifty images without alt text are one issue."""
    first: dict[tuple[str, str], PresendIssue] = {}
    counts: dict[tuple[str, str], int] = {}
    for issue in dict.fromkeys(issues):
        kind = (issue.code, issue.where) if issue.code not in _LISTED_EACH else (issue.code, issue.sentence)
        first.setdefault(kind, issue)
        counts[kind] = counts.get(kind, 0) + 1
    return [
        issue
        if counts[kind] == 1
        else replace(
            issue,
            sentence=lazy_gettext("{sentence} (and {count} more)", sentence=issue.sentence, count=counts[kind] - 1),
        )
        for kind, issue in first.items()
    ]


def _parse_html(html: str) -> LexborHTMLParser:
    return LexborHTMLParser(_without_template_code(html))


def _without_template_code(source: str) -> str:
    """Replace template code with a word, because its quotes would end attributes."""
    return replace_code(source, lambda code: _VALUE if code.startswith("{{") else f" {_STATEMENT} ")


def _has_code(value: str) -> bool:
    return _VALUE in value or _STATEMENT in value


def _without_code(text: str) -> str:
    return " ".join(replace_code(text, lambda _: "").split())


def _uses(source: str, variable: str) -> bool:
    return any(re.search(rf"\b{variable}\b", code) for code in find_code(source))


def _attribute_of(node: LexborNode, name: str) -> str:
    return (node.attributes.get(name) or "").strip()


def _short(url: str) -> str:
    return url if len(url) <= 60 else f"{url[:57]}…"


def _is_shouted(text: str) -> bool:
    cased = [character for character in text if character.isalpha() and character.upper() != character.lower()]
    capitals = sum(character.isupper() for character in cased)
    return capitals >= MIN_CAPITALS and capitals > 0.7 * len(cased)


def _is_same_site(stated: str, host: str) -> bool:
    stated, host = stated.removeprefix("www."), host.lower().removeprefix("www.")
    return stated == host or host.endswith(f".{stated}") or stated.endswith(f".{host}")
