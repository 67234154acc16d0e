"""Find the links of an email and replace the tracked ones.

Only absolute http and https links of the HTML are tracked, also those of Outlook's VML shapes. Links of the text part
get the parameters of the campaign. Everything else stays as the author wrote it: `mailto:`, `tel:`, anchors, and the
recipient's own pages such as the unsubscribe page.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from html import escape
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode

from mailwright.content.attribute_entities import unescape_attribute
from mailwright.domain.lazy_dataclass import dataclass

# Longer links get parameters but are not tracked: some email programs would truncate them once they contain a token.
MAX_URL_LENGTH: Final = 1_500
_MAX_ATTRIBUTES: Final = 64
_MAX_VALUE: Final = 4_096
_TAG: Final = re.compile(r"<(?:a|area|v:[a-z]+)(?=[\s/])", re.IGNORECASE)
# Values have a maximum length, because many unclosed quotes would otherwise take quadratic time.
_ATTRIBUTE: Final = re.compile(
    rf"""[\s/]*+([^\s"'<>/=]++)(?:\s*+=\s*+(?:"([^"]{{0,{_MAX_VALUE}}}+)"|'([^']{{0,{_MAX_VALUE}}}+)'|([^\s"'=<>`]++)))?+"""
)
# The rest of a tag after the value of an attribute: the closing quote, further attributes and the end.
_TAG_END: Final = re.compile(rf"""["']?(?:[^<>"']|"[^"]{{0,{_MAX_VALUE}}}+"|'[^']{{0,{_MAX_VALUE}}}+')*+>""")
_ABSOLUTE: Final = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
# A URL in a text ends at a space, a quotation mark or a bracket that it did not open.
_NOT_IN_URL: Final = r'\s<>()\[\]"“”«»。、，；！？（）「」『』【】《》'
_URL_IN_TEXT: Final = re.compile(
    rf"https?://(?:[^{_NOT_IN_URL}]|\([^{_NOT_IN_URL}]*+\)|\[[^{_NOT_IN_URL}]*+\])++", re.IGNORECASE
)
_AFTER_URL: Final = ".,;:!?'*"
# Browsers remove these characters from a URL, and control characters and spaces around it.
_REMOVED: Final = dict.fromkeys(map(ord, "\t\r\n"))
_AROUND: Final = "".join(map(chr, range(33)))
# Comments, which may be unclosed, and the ends of the body outside of them.
_END_OF_BODY: Final = re.compile(
    r"(?P<comment><!--(?:-?>|.*?(?:--!?>|(?P<open>\Z))))|</body\s*>", re.IGNORECASE | re.DOTALL
)
_INVISIBLE: Final = 'rel="nofollow" tabindex="-1" aria-hidden="true" style="display:none;mso-hide:all"'


class Href(NamedTuple):
    """The value of a link's `href` in the HTML, with entities unresolved."""

    start: int
    end: int
    value: str


def find_hrefs(html: str) -> Iterator[Href]:
    """Yield the `href` of every link. Tags that cannot be parsed are skipped, so their links stay unchanged."""
    position = 0
    for tag in _TAG.finditer(html):
        if tag.start() < position:  # It is text in an attribute of the previous tag.
            continue
        position, has_href = tag.end(), False
        for _ in range(_MAX_ATTRIBUTES):
            attribute = _ATTRIBUTE.match(html, position)
            if attribute is None:
                break
            position = attribute.end()
            if attribute[1].lower() == "href" and not has_href:
                has_href = True
                group = next((number for number in (2, 3, 4) if attribute[number] is not None), None)
                if group is not None:
                    yield Href(*attribute.span(group), attribute[group])


def replace_hrefs(html: str, replacement: Callable[[str], str | None]) -> str:
    """Replace each `href` for which `replacement` returns a text, and leave everything else unchanged."""
    pieces, position = [], 0
    for href in find_hrefs(html):
        new = replacement(href.value)
        if new is not None:
            pieces += [html[position : href.start], new]
            position = href.end
    return "".join([*pieces, html[position:]])


def insert_in_links(html: str, content: Callable[[str], str]) -> str:
    """Insert HTML at the beginning of every link with an absolute http or https URL."""
    pieces, position = [], 0
    for href in find_hrefs(html):
        end = _TAG_END.match(html, href.end)
        url = url_of(href.value)
        if end is not None and _ABSOLUTE.match(url):
            pieces += [html[position : end.end()], content(url)]
            position = end.end()
    return "".join([*pieces, html[position:]])


def url_of(value: str) -> str:
    """Return the URL that a browser gets from the value of an attribute."""
    return clean_url(unescape_attribute(value))


def clean_url(url: str) -> str:
    """Remove the characters that browsers remove from a URL."""
    return url.strip(_AROUND).translate(_REMOVED)


def with_pixel(html: str, source: str, invisible_link: str | None = None) -> str:
    """Add an invisible image at the end of the body, outside of comments, and a link that only programs see.

    The link has no text and is hidden as preview texts are, also from screen readers and the keyboard.
    """
    image = f'<img src="{source}" width="1" height="1" alt="" style="display:block;border:0">'
    if invisible_link is not None:
        image = f'<a href="{invisible_link}" {_INVISIBLE}></a>{image}'
    found = [*_END_OF_BODY.finditer(html)]
    unclosed = [end.start() for end in found if end["open"] is not None]
    position = [len(html), *unclosed, *(end.start() for end in found if not end["comment"])][-1]
    return f"{html[:position]}{image}{html[position:]}"


def add_parameters(url: str, parameters: Mapping[str, str]) -> str:
    """Add parameters to the query of a URL, except those it already has. The rest of the URL stays unchanged."""
    if not parameters:
        return url
    address, mark, fragment = url.partition("#")
    known = {name for name, _ in parse_qsl(address.partition("?")[2], keep_blank_values=True)}
    added = urlencode({name: value for name, value in parameters.items() if name not in known})
    if not added:
        return url
    separator = "" if address.endswith(("?", "&")) else "&" if "?" in address else "?"
    return f"{address}{separator}{added}{mark}{fragment}"


class LinkTokens(Protocol):
    """Creates the tokens of one campaign."""

    @property
    def pixel(self) -> str:
        """The shared part of the pixel's token."""
        ...

    @property
    def invisible_link(self) -> str | None:
        """The shared part of the invisible link's token, or None if the email has no such link."""
        ...

    def personal(self, outbox_id: str, url: str) -> str:
        """Return the token of a link that contains values of the recipient."""
        ...


@dataclass(frozen=True, slots=True)
class TrackedRecipient:
    """The recipient that the tracked links of a message identify."""

    outbox_id: str
    part: str  # The last part of every link's token.


@dataclass(frozen=True, slots=True)
class LinkRewriter:
    """Replaces the links of one template for one campaign. In anonymous mode there is no recipient.

    Without tokens nothing is tracked, and links only get the parameters of the campaign, which identify nobody.
    """

    base_url: str  # The token is appended to it.
    tokens: LinkTokens | None
    fixed: Mapping[str, str]  # The shared part of the token by URL, for links that are the same for everyone.
    parameters: Mapping[str, str] = field(default_factory=dict)
    own_pages: tuple[str, ...] = ()  # Prefixes of URLs that are never tracked.
    is_individual: bool = True

    def is_tracked(self, url: str) -> bool:
        return is_trackable(url, self.own_pages)

    def takes_parameters(self, url: str) -> bool:
        return bool(self.parameters) and _leads_elsewhere(url, self.own_pages)

    def rewrite(self, html: str, recipient: TrackedRecipient | None, untracked: tuple[str, ...] = ()) -> str:
        """Replace the links of a finished email, and add the pixel. The URLs in `untracked` stay."""

        def replacement(value: str) -> str | None:
            url = url_of(value)
            return None if url in untracked else self.href(url, recipient)

        changed = replace_hrefs(html, replacement)
        return self.add_pixel(changed, recipient.part if recipient else "", has_links=changed != html)

    def rewrite_text(self, text: str, untracked: tuple[str, ...] = ()) -> str:
        """Add the parameters to the links of a text. The URLs in `untracked` stay."""
        if not self.parameters or "://" not in text:
            return text

        def replacement(found: re.Match[str]) -> str:
            url = found[0].rstrip(_AFTER_URL)
            if url in untracked or not self.takes_parameters(url):
                return found[0]
            return add_parameters(url, self.parameters) + found[0][len(url) :]

        return _URL_IN_TEXT.sub(replacement, text)

    def add_pixel(self, html: str, recipient_part: str, *, has_links: bool) -> str:
        """Add the pixel, and the invisible link to an email with tracked links."""
        if self.tokens is None:
            return html
        invisible = self.tokens.invisible_link if has_links else None
        link = None if invisible is None else f"{self.base_url}{invisible}{recipient_part}"
        return with_pixel(html, f"{self.base_url}{self.tokens.pixel}{recipient_part}", link)

    def href(self, url: str, recipient: TrackedRecipient | None) -> str | None:
        """Return the tracked link to a URL, or None if the URL stays as it is."""
        if not self.is_tracked(url) and not self.takes_parameters(url):
            return None
        if (found := self.fixed_href(url, recipient.part if recipient else "")) is not None:
            return found
        is_personal = recipient is not None and self.is_tracked(url)
        return self.personal_href(url, recipient) if is_personal or self.takes_parameters(url) else None

    def fixed_href(self, url: str, recipient_part: str) -> str | None:
        """Return the link to a URL that is the same for every recipient, or None if the URL stays as it is."""
        if (shared := self.fixed.get(url)) is not None:
            return f"{self.base_url}{shared}{recipient_part}"
        if not self.takes_parameters(url) or (self.tokens is not None and self.is_tracked(url)):
            return None
        return escape(add_parameters(url, self.parameters))

    def personal_href(self, url: str, recipient: TrackedRecipient | None) -> str:
        """Return the link to a URL that contains values of the recipient, or the URL itself if it is not tracked."""
        target = add_parameters(url, self.parameters) if self.takes_parameters(url) else url
        if recipient is None or self.tokens is None or not self.is_tracked(url):
            return escape(target)
        return f"{self.base_url}{self.tokens.personal(recipient.outbox_id, target)}"


def is_trackable(url: str, own_pages: tuple[str, ...]) -> bool:
    return len(url) <= MAX_URL_LENGTH and _leads_elsewhere(url, own_pages)


def _leads_elsewhere(url: str, own_pages: tuple[str, ...]) -> bool:
    return bool(_ABSOLUTE.match(url)) and not url.startswith(own_pages)


def fixed_urls(source: str, own_pages: tuple[str, ...]) -> set[str]:
    """Return the URLs of a template's links that are the same for every recipient."""
    urls = (url_of(href.value) for href in find_hrefs(source) if "{" not in href.value)
    return {url for url in urls if is_trackable(url, own_pages)}
