"""Check the links of an email. Authors choose the URLs, so requests to private networks are refused."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from urllib.parse import urljoin, urlsplit

from aiohappyeyeballs import AddrInfoType

from mailwright.content.presend_checks import PresendIssue, host_of, presend_issue
from mailwright.domain.network import is_public_address
from mailwright.providers.http import Disconnect, HostNotAllowed, HttpClient, HttpResponse, Resolve, addresses_of

TIMEOUT_SECONDS = 5.0
MAX_LINKS = 100
MAX_REDIRECTS = 5
CONCURRENCY = 8
PORTS = (None, 80, 443)
REDIRECTS = (301, 302, 303, 307, 308)
PRIVATE_NETWORK = "it leads into a private network"
# With these statuses the page exists, but requires sign-in or blocks robots.
REACHABLE_STATUSES = (401, 403, 405, 406, 429, 503, 999)

Request = Callable[[str], Awaitable[HttpResponse | Disconnect]]


def public_only(resolve: Resolve = addresses_of, *, otherwise: str = PRIVATE_NETWORK) -> Resolve:
    """Resolve names to public addresses only.

    The check applies to the address that the client then connects to, so a second lookup cannot bypass it.
    `otherwise` is the error message if the address is private.
    """

    async def resolve_public(host: str, port: int) -> Sequence[AddrInfoType]:
        found = await resolve(host, port)
        if not all(is_public_address(str(place[4][0])) for place in found):
            raise HostNotAllowed(otherwise)
        return found

    return resolve_public


async def dead_links(links: Sequence[str], request: Request | None = None) -> list[PresendIssue]:
    """Return the broken links, in the order of the email."""
    if request is not None:
        return await _dead(links, request)
    http = HttpClient(connections=CONCURRENCY, resolve=public_only())
    try:
        return await _dead(links, lambda url: http.request("GET", url, timeout_seconds=TIMEOUT_SECONDS))
    finally:
        await http.close()


async def _dead(links: Sequence[str], request: Request) -> list[PresendIssue]:
    limiter = asyncio.Semaphore(CONCURRENCY)

    async def check(link: str) -> PresendIssue | None:
        async with limiter:
            reason = await _find_problem(link, request)
        return (
            None
            if reason is None
            else presend_issue("DEAD_LINK", f"the link {link[:200]} does not work: {reason}", "html")
        )

    found = await asyncio.gather(*(check(link) for link in links[:MAX_LINKS]))
    return [each for each in found if each is not None]


async def _find_problem(url: str, request: Request) -> str | None:
    """Return why a link does not work, or None. Every redirect is checked like the link itself."""
    for _ in range(MAX_REDIRECTS + 1):
        if reason := invalid_reason(url):
            return reason
        match await request(url):
            case Disconnect(cause=cause):
                return cause
            case HttpResponse(status=status, headers=headers) if status in REDIRECTS:
                url = urljoin(url, headers.get("Location", ""))
            case HttpResponse(status=status):
                return f"it returns {status}" if status >= 400 and status not in REACHABLE_STATUSES else None
    return "it redirects too often"


def invalid_reason(url: str) -> str | None:
    """Return why a URL is refused without a request."""
    host = host_of(url)
    if host is None or urlsplit(url).scheme not in ("http", "https"):
        return "it is not a web address"
    if urlsplit(url).port not in PORTS:
        return "it uses a port other than 80 and 443"
    try:
        ip_address(host)
    except ValueError:
        # Some resolvers accept `127.1` and `0x7f000001` as addresses.
        is_digits = host.rpartition(".")[2].isdigit() or host.rpartition(".")[2].startswith("0x")
        return "it is not a web address" if is_digits else None
    return None if is_public_address(host) else PRIVATE_NETWORK
