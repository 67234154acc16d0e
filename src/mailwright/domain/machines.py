"""Recognise opens and clicks by programs: image proxies, link scanners and link previews."""

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final

from mailwright.domain.clock import SECOND, Instant

# An open or click this soon after the handover comes from a scanner, because nobody reads an email that fast.
TOO_SOON: Final[Instant] = 5 * SECOND

# The complete user agent of Apple Mail Privacy Protection, which loads every image in advance.
_APPLE_PROXY: Final = "mozilla/5.0"
_PROGRAMS: Final = re.compile(
    # Image proxies of mailbox providers.
    r"googleimageproxy|ggpht\.com|edge/12\.246 mozilla/5\.0|yahoomailproxy|yahoocachesystem|outlookimageproxy"
    # Link scanners of mail servers and security products.
    r"|safelinks|barracuda|mimecast|proofpoint|urldefense|fireeye|trellix|messagelabs|symantec|sophos|trendmicro"
    r"|ironport|forcepoint|zscaler|cloudmark|bitdefender|google-safety|virustotal|urlscan"
    # Previews of messengers, crawlers and libraries.
    r"|(?<!cu)bot\b|(?<!cu)bot/|crawl|spider|slurp|preview|scanner|facebookexternalhit|whatsapp|embedly|mediapartners"
    r"|netcraft|cloudflare|censys|zgrab|nutch|compatible; google"
    r"|headlesschrome|phantomjs|puppeteer|playwright|selenium|lighthouse"
    r"|curl/|wget|python|aiohttp|httpx|urllib|go-http-client|okhttp|java/|apache-httpclient|libwww(?!-fm)|node-fetch|axios|guzzle"
    r"|ruby|perl|scrapy|http_request|winhttp|microsoft office existence discovery",
    re.IGNORECASE,
)
# How the user agents of browsers begin. A link is opened in a browser; images are also loaded by email programs.
_BROWSERS: Final = re.compile(
    r"mozilla/|opera/|lynx/|e?links|w3m/|ucweb|dillo|netsurf|blackberry|nokia|samsung|sonyericsson|lg-|mot-",
    re.IGNORECASE,
)
# Programs among them that check a link before the browser opens it.
_NOT_BROWSERS: Final = re.compile(r"ms-?office|microsoft office", re.IGNORECASE)
# Headers in which browsers announce that no person has requested the page yet.
_PREFETCH_HEADERS: Final = ("purpose", "sec-purpose", "x-purpose", "x-moz")
_PREFETCHES: Final = ("prefetch", "prerender", "preview", "preload")
# Networks of Exchange Online Protection, which opens links for Safe Links: the ranges that Microsoft publishes, and an
# adjacent one.
_SCANNER_NETWORKS: Final = tuple(
    ip_network(text)
    for text in (
        "40.92.0.0/15",
        "40.94.0.0/16",
        "40.107.0.0/16",
        "52.100.0.0/14",
        "104.47.0.0/17",
        "2a01:111:f400::/48",
    )
)


# Results are cached, because user agents repeat and the search takes longer than the rest of a redirect.
@lru_cache(maxsize=4_096)
def is_machine_agent(user_agent: str) -> bool:
    """Return whether a program other than a browser has this user agent. An empty user agent counts as a program."""
    agent = user_agent.strip()
    return not agent or agent.lower() == _APPLE_PROXY or _PROGRAMS.search(agent) is not None


@lru_cache(maxsize=4_096)
def is_machine_click(user_agent: str) -> bool:
    """Return whether a program other than a browser has this user agent, and follows a link."""
    agent = user_agent.strip()
    return is_machine_agent(agent) or not _BROWSERS.match(agent) or _NOT_BROWSERS.search(agent) is not None


def is_machine_report(user_agent: object, *, is_click: bool) -> bool:
    """Return whether a provider's report has a program's user agent. A missing user agent does not count."""
    if not isinstance(user_agent, str) or not user_agent.strip():
        return False
    return is_machine_click(user_agent) if is_click else is_machine_agent(user_agent)


def is_machine_request(headers: Mapping[str, str], address: str | None, *, is_click: bool) -> bool:
    """Return whether a program sent the request. The names in `headers` are in lower case."""
    agent = headers.get("user-agent", "")
    if is_machine_click(agent) if is_click else is_machine_agent(agent):
        return True
    if is_prefetch(headers):
        return True
    return address is not None and _is_scanner(address)


def is_prefetch(headers: Mapping[str, str]) -> bool:
    """Return whether a browser loads the page in advance. The names in `headers` are in lower case."""
    values = " ".join(headers.get(name, "") for name in _PREFETCH_HEADERS).lower()
    return any(word in values for word in _PREFETCHES)


def is_navigation_by_person(headers: Mapping[str, str]) -> bool:
    """Return whether a browser says that a person opened this page, by a click or by entering its address.

    Browsers send these headers to https pages only. The names in `headers` are in lower case.
    """
    return (
        headers.get("sec-fetch-user") == "?1"
        and headers.get("sec-fetch-mode", "navigate") == "navigate"
        and headers.get("sec-fetch-dest", "document") == "document"
    )


def is_other_request(headers: Mapping[str, str]) -> bool:
    """Return whether a browser says that this is not a page that somebody opens, but a script's request or an image.

    The names in `headers` are in lower case.
    """
    return headers.get("sec-fetch-mode", "navigate") != "navigate" or headers.get("sec-fetch-dest", "document") not in (
        "document",
        "iframe",
        "frame",
    )


def is_too_soon(at: Instant, sent_at: Instant | None) -> bool:
    return sent_at is not None and at - sent_at < TOO_SOON


def _is_scanner(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    # A listener for both versions reports an IPv4 address as ::ffff:192.0.2.1.
    found = getattr(found, "ipv4_mapped", None) or found
    return any(found in network for network in _SCANNER_NETWORKS if network.version == found.version)
