"""Decide which opens and clicks of one message a program made, from all of them together.

The result depends only on the responses, not on the order in which they were reported, and a further response can only
make more of them the responses of a machine. So reports that arrive late or twice give the same result.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from mailwright.domain.clock import MINUTE, SECOND, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.machines import is_too_soon

# Clicks on different links that follow each other this fast come from a program. A person must look for the next link
# and return from the page of the last one, which takes longer even if pages open in background tabs. Not shorter,
# because some providers report whole seconds.
BURST_GAP: Final[Instant] = SECOND
# A program that follows the invisible link may wait between links, and nobody else sees that link. Not longer, because
# the person who reads the email after the scanner counts.
INVISIBLE_LINK_GAP: Final[Instant] = 5 * MINUTE
# Programs that wait longer, and never the same time, follow more links in a row than people do: the longest wait, and
# the number of different links. Nobody reads five pages in twenty seconds.
SERIES: Final[tuple[tuple[Instant, int], ...]] = ((5 * SECOND, 5), (30 * SECOND, 10))
# Hardly anybody unsubscribes in the same seconds in which they follow several other links: the longest wait, and the
# number of different links before the unsubscribe link. Fewer than a series, because a person who does only needs to
# press a button.
HURRY_GAP: Final[Instant] = 10 * SECOND
HURRY_LINKS: Final = 2
# Stands for the unsubscribe link among the links of an email.
UNSUBSCRIBE_LINK: Final = ""
# A program that waits the same time before each link: the number of different links, the longest wait, and how much the
# waits differ. Three waits of a person are hardly ever that even.
EVEN_LINKS: Final = 4
EVEN_GAP: Final[Instant] = MINUTE
EVEN_TOLERANCE: Final[Instant] = 150
# More clicks on one email are not compared with each other, because that takes too long.
MAX_COMPARED_CLICKS: Final = 50
# A program loads the pixel shortly before or after the links.
OPEN_GAP: Final[Instant] = 5 * SECOND
# Mailbox providers scan an email before they accept it, and while they put it into the mailbox.
SCANNED_BEFORE_DELIVERY: Final[Instant] = 30 * SECOND
SCANNED_AFTER_DELIVERY: Final[Instant] = 2 * SECOND


class MachineReason(StrEnum):
    """Why a response counts as a machine's. The value is stored on the timeline."""

    TOO_SOON = "too_soon"
    BURST = "burst"
    INVISIBLE_LINK = "invisible_link"
    EVEN_PACE = "even_pace"
    SERIES = "series"


@dataclass(frozen=True, slots=True)
class EmailResponse:
    """An open or a click."""

    key: int
    at: Instant
    is_click: bool
    url: str | None = None  # None if the report has no link.
    is_invisible_link: bool = False


def find_machines(
    responses: Collection[EmailResponse], sent_at: Instant | None, delivered_at: Collection[Instant] = ()
) -> dict[int, MachineReason]:
    """Return the keys of the responses by machines, among all responses to one message."""
    found = {
        each.key: MachineReason.TOO_SOON
        for each in responses
        if is_too_soon(each.at, sent_at) or any(is_scan_of_delivery(each.at, time) for time in delivered_at)
    }
    clicks = sorted((each for each in responses if each.is_click), key=lambda each: each.at)
    if len(clicks) <= MAX_COMPARED_CLICKS:
        found |= {
            key: MachineReason.EVEN_PACE
            for each in clicks
            if each.url is not None
            for key in _even_keys([each], clicks)
        }
    for gap, is_machine, reason in _RULES:
        for chain in _chains(clicks, gap):
            if is_machine(chain):
                reach = min(gap, OPEN_GAP)
                since, until = chain[0].at - reach, chain[-1].at + reach
                # Includes opens in this time: the same program loaded the pixel.
                found |= {each.key: reason for each in responses if since <= each.at <= until}
    return found


def follows_other_links(visit: EmailResponse, responses: Iterable[EmailResponse]) -> bool:
    """Return whether the visitor of the unsubscribe link has followed several other links just before."""
    since = visit.at
    links: set[str] = set()
    clicks = (each for each in responses if each.is_click and each.at <= visit.at)
    for click in sorted(clicks, key=lambda each: each.at, reverse=True):
        if since - click.at > HURRY_GAP:
            break
        since = click.at
        links.add(click.url or UNSUBSCRIBE_LINK)
    return len(links - {UNSUBSCRIBE_LINK}) >= HURRY_LINKS


def is_scan_of_delivery(at: Instant, delivered_at: Instant) -> bool:
    return -SCANNED_BEFORE_DELIVERY <= at - delivered_at < SCANNED_AFTER_DELIVERY


def _chains(clicks: Iterable[EmailResponse], gap: Instant) -> Iterator[list[EmailResponse]]:
    """Split clicks in the order of time wherever there is a longer gap between two of them."""
    chain: list[EmailResponse] = []
    for click in clicks:
        if chain and click.at - chain[-1].at > gap:
            yield chain
            chain = []
        chain.append(click)
    if chain:
        yield chain


def _even_keys(series: Sequence[EmailResponse], clicks: Sequence[EmailResponse]) -> set[int]:
    """Return the keys of all series that begin with this one and follow different links at an even pace."""
    if len(series) == EVEN_LINKS:
        # A provider that reports whole seconds makes the pace of people even.
        return {click.key for click in series} if any(click.at % SECOND for click in series) else set()
    last, urls = series[-1].at, {None, *(click.url for click in series)}
    gap = series[1].at - series[0].at if len(series) > 1 else None
    low, high = (BURST_GAP, EVEN_GAP) if gap is None else (gap - EVEN_TOLERANCE, gap + EVEN_TOLERANCE)
    start = bisect_left(clicks, last + low, key=lambda click: click.at)
    end = bisect_right(clicks, last + high, key=lambda click: click.at)
    following = (click for click in clicks[start:end] if click.url not in urls)
    return {key for click in following for key in _even_keys([*series, click], clicks)}


def _count_links(chain: Sequence[EmailResponse]) -> int:
    return len({click.url for click in chain if click.url is not None})


def _has_invisible_link(chain: Sequence[EmailResponse]) -> bool:
    return any(click.is_invisible_link for click in chain)


def _has_links(number: int) -> Callable[[Sequence[EmailResponse]], bool]:
    return lambda chain: _count_links(chain) >= number


# The last rule that applies states the reason.
_RULES: Final[tuple[tuple[Instant, Callable[[Sequence[EmailResponse]], bool], MachineReason], ...]] = (
    *((gap, _has_links(number), MachineReason.SERIES) for gap, number in SERIES),
    (INVISIBLE_LINK_GAP, _has_invisible_link, MachineReason.INVISIBLE_LINK),
    (BURST_GAP, _has_links(2), MachineReason.BURST),
)
