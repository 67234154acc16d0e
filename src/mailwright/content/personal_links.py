"""Find links that belong to one recipient of an email that was already sent, for example in copied HTML.

Their tokens are recognized by their form and not by the host, because hosts change and tenants have their own host for
tracked links.
"""

import re
from binascii import Error as InvalidBase64
from collections.abc import Iterator, Mapping
from html import escape, unescape
from typing import Final
from urllib.parse import parse_qs, urlsplit

from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.signing import decode
from mailwright.domain.tracking_tokens import is_tracking_token, link_id_in
from mailwright.domain.unsubscribe_tokens import MAX_TOKEN_LENGTH

_URL: Final = re.compile(r"""https?://[^\s"'<>()]+""", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[\w-]{4,}\.[\w-]{20,}", re.ASCII)
# The variables that link to the same page for each recipient. Other personal pages have no variable.
_VARIABLES: Final = {"unsubscribe": "unsubscribe_url", "preferences": "preferences_url"}
_WITHOUT_VARIABLE: Final = frozenset({"resubscribe", "confirm"})


@dataclass(frozen=True, slots=True)
class PersonalLink:
    url: str  # as it is written in the source
    page: str  # the URL without its token
    variable: str | None  # the variable to use instead
    link_id: str | None = None  # the stored target of a tracked link


def find_personal_links(source: str) -> Iterator[PersonalLink]:
    """Find the personal links anywhere in HTML or text, each as often as it occurs."""
    for match in _URL.finditer(source):
        if (found := _personal_link(match[0])) is not None:
            yield found


def replace_tracked_links(source: str, targets: Mapping[str, str], *, is_html: bool = True) -> str:
    """Replace tracked links with their targets, which are given by the IDs of the links. Unknown ones stay."""

    def replace(match: re.Match[str]) -> str:
        found = _personal_link(match[0])
        target = None if found is None or found.link_id is None else targets.get(found.link_id)
        return match[0] if target is None else escape(target) if is_html else target

    return _URL.sub(replace, source)


def replace_personal_links(source: str) -> str:
    """Replace personal links with the variable of the same page. Links without a variable stay."""

    def replace(match: re.Match[str]) -> str:
        found = _personal_link(match[0])
        return match[0] if found is None or found.variable is None else f"{{{{ {found.variable} }}}}"

    return _URL.sub(replace, source)


def _personal_link(written: str) -> PersonalLink | None:
    if len(written) > 2 * MAX_TOKEN_LENGTH:
        return None
    try:
        parts = urlsplit(unescape(written))
    except ValueError:
        return None
    place, _, last = parts.path.rstrip("/").rpartition("/")
    base = f"{parts.scheme}://{parts.netloc}"
    if any(_is_address_token(token) for token in parse_qs(parts.query).get("token", ())):
        # A setting can give the unsubscribe page any address.
        variable = None if last in _WITHOUT_VARIABLE else _VARIABLES.get(last, "unsubscribe_url")
        return PersonalLink(written, f"{base}{parts.path}", variable)
    if place.endswith("/t") and is_tracking_token(last):
        return PersonalLink(written, f"{base}{place}/…", None, link_id_in(last))
    if place.endswith("/view") and is_uuid(last.partition(".")[0]):
        return PersonalLink(written, f"{base}{place}/…", "web_view_url")
    return None


def _is_address_token(token: str) -> bool:
    """Return whether a token names an email address. Its signature does not matter."""
    if len(token) > MAX_TOKEN_LENGTH or not _TOKEN.fullmatch(token):
        return False
    try:
        named = decode(token.partition(".")[0]).decode()
    except (InvalidBase64, ValueError):
        return False
    return "@" in named and named.isprintable()
