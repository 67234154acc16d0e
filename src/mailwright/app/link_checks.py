"""Links of a mail, asked whether they are there. Authors write them, so none may lead into our own network."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from urllib.parse import urljoin, urlsplit

from aiohappyeyeballs import AddrInfoType

from mailwright.content.presend_checks import PresendIssue, host_of, presend_issue
from mailwright.domain.network import is_public_address
from mailwright.providers.http import Disconnect, HostNotAllowed, HttpClient, HttpResponse, Resolve, addresses_of

TIMEOUT_SECONDS = 5.0
MOST_LINKS = 100
MOST_REDIRECTS = 5
AT_ONCE = 8
PORTS = (None, 80, 443)
REDIRECTS = (301, 302, 303, 307, 308)
INSIDE = "it leads into a private network"
# A page that asks who we are, or takes us for a robot, is there.
NOT_DEAD = (401, 403, 405, 406, 429, 503, 999)

Ask = Callable[[str], Awaitable[HttpResponse | Disconnect]]


def public_only(resolve: Resolve = addresses_of, *, otherwise: str = INSIDE) -> Resolve:
    """Judges the address that is then connected to, so that a name cannot mean one at the check and another after.

    `otherwise` is what whoever asked is told of a private one.
    """

    async def judged(host: str, port: int) -> Sequence[AddrInfoType]:
        found = await resolve(host, port)
        if not all(is_public_address(str(place[4][0])) for place in found):
            raise HostNotAllowed(otherwise)
        return found

    return judged


async def dead_links(links: Sequence[str], ask: Ask | None = None) -> list[PresendIssue]:
    """Those that lead nowhere, in the order of the mail."""
    if ask is not None:
        return await _dead(links, ask)
    http = HttpClient(connections=AT_ONCE, resolve=public_only())
    try:
        return await _dead(links, lambda url: http.request("GET", url, timeout_seconds=TIMEOUT_SECONDS))
    finally:
        await http.close()


async def _dead(links: Sequence[str], ask: Ask) -> list[PresendIssue]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def judged(link: str) -> PresendIssue | None:
        async with turns:
            reason = await _objection(link, ask)
        return (
            None
            if reason is None
            else presend_issue("DEAD_LINK", f"the link {link[:200]} does not work: {reason}", "html")
        )

    found = await asyncio.gather(*(judged(link) for link in links[:MOST_LINKS]))
    return [each for each in found if each is not None]


async def _objection(url: str, ask: Ask) -> str | None:
    """Follows redirects itself: each step is judged like the first."""
    for _ in range(MOST_REDIRECTS + 1):
        if reason := _refusal(url):
            return reason
        match await ask(url):
            case Disconnect(cause=cause):
                return cause
            case HttpResponse(status=status, headers=headers) if status in REDIRECTS:
                url = urljoin(url, headers.get("Location", ""))
            case HttpResponse(status=status):
                return f"it answers {status}" if status >= 400 and status not in NOT_DEAD else None
    return "it leads from one address to the next without end"


def _refusal(url: str) -> str | None:
    """What needs no look at the network."""
    host = host_of(url)
    if host is None or urlsplit(url).scheme not in ("http", "https"):
        return "it is no web address"
    if urlsplit(url).port not in PORTS:
        return "it names a port that is not for the web"
    try:
        ip_address(host)
    except ValueError:
        # `127.1` and `0x7f000001` are addresses to some resolvers.
        is_digits = host.rpartition(".")[2].isdigit() or host.rpartition(".")[2].startswith("0x")
        return "it is no web address" if is_digits else None
    return None if is_public_address(host) else INSIDE
