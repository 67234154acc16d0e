"""Recognise opens and clicks of programs: image proxies that load in advance, link scanners and previews."""

import re
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Final

from mailwright.domain.clock import SECOND, Instant

# Nobody reads an email and clicks this soon after it was handed over; scanners do.
TOO_SOON: Final[Instant] = 5 * SECOND

# Apple Mail Privacy Protection loads every image in advance and names nothing but this.
_APPLE_PROXY: Final = "mozilla/5.0"
_PROGRAMS: Final = re.compile(
    # Image proxies of mailbox providers.
    r"googleimageproxy|ggpht\.com|edge/12\.246 mozilla/5\.0|yahoomailproxy|yahoocachesystem|outlookimageproxy"
    # Link scanners of mail servers and security products.
    r"|safelinks|barracuda|mimecast|proofpoint|urldefense|fireeye|trellix|messagelabs|symantec|sophos|trendmicro"
    r"|ironport|forcepoint|zscaler|cloudmark|bitdefender|google-safety|virustotal|urlscan"
    # Previews of messengers, crawlers and libraries.
    r"|bot\b|bot/|crawl|spider|slurp|preview|scanner|facebookexternalhit|whatsapp|embedly|mediapartners"
    r"|headlesschrome|phantomjs|puppeteer|playwright|selenium|lighthouse"
    r"|curl/|wget|python|aiohttp|httpx|urllib|go-http-client|okhttp|java/|apache-httpclient|libwww|node-fetch|axios|guzzle"
    r"|ruby|perl|scrapy|http_request|winhttp|microsoft office existence discovery",
    re.IGNORECASE,
)
# Headers with which programs say that no person asked for this page.
_PREFETCH: Final = ("purpose", "sec-purpose", "x-purpose", "x-moz")
# Exchange Online Protection, which opens links for Safe Links: the ranges that Microsoft publishes, and the one beside.
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


# User agents repeat, and searching one takes longer than the rest of a redirect.
@lru_cache(maxsize=4_096)
def is_machine_agent(user_agent: str) -> bool:
    """Return whether a program that is not a browser has this user agent. No user agent is a program's too."""
    agent = user_agent.strip()
    return not agent or agent.lower() == _APPLE_PROXY or _PROGRAMS.search(agent) is not None


def is_machine_report(user_agent: object) -> bool:
    """Return whether the user agent that a provider reported is a program's. Without one, nothing is known."""
    return isinstance(user_agent, str) and bool(user_agent.strip()) and is_machine_agent(user_agent)


def is_machine_request(headers: Mapping[str, str], address: str | None) -> bool:
    """Return whether a program sent the request. `headers` have names in lower case."""
    if is_machine_agent(headers.get("user-agent", "")):
        return True
    if any("prefetch" in headers.get(name, "").lower() or "preview" in headers.get(name, "") for name in _PREFETCH):
        return True
    return address is not None and _is_scanner(address)


def is_too_soon(at: Instant, sent_at: Instant | None) -> bool:
    return sent_at is not None and at - sent_at < TOO_SOON


def _is_scanner(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in _SCANNER_NETWORKS if network.version == found.version)
