"""Correct opens and clicks that were recorded as a person's and turned out to be a machine's.

The event itself changes, so that every reader of events sees the machine, and the tallies that contain it change in the
same transaction. An event of the type `corrected` follows, for readers who have already processed the first one, such
as webhooks. It replaces the event of an unsubscribe.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson

from mailwright.domain.clock import MINUTE, Instant, isoformat
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import EventType
from mailwright.outbox.settle import append_events, event_row
from mailwright.outbox.tallies import CAMPAIGNS, CORRECTION, LINKS, MACHINE, MAX_URL_CHARACTERS, TENANTS
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

CORRECT_EVENTS = statement(__package__, "correct_events")
DELETE_EVENTS = statement(__package__, "delete_events")
FIND_RESPONSES = statement(__package__, "find_responses")
FIND_TALLY_CURSORS = statement(__package__, "find_tally_cursors")
LOCK_RESPONSES = statement(__package__, "lock_responses")
STORE_VALUE = statement(__package__, "store_value")

ENGAGEMENT: Final = frozenset({EventType.OPENED, EventType.CLICKED})
# The field of an unsubscribe that has the list of the link, if opening the link was enough to unsubscribe.
VISITED_LIST: Final = "visitedListKey"


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An open, a click, an unsubscribe or a delivery on the timeline of a message."""

    event_key: int
    message_key: int
    tenant_id: int
    type: str
    created_at: Instant
    metadata: str  # As it is stored.
    campaign_key: int | None
    template_key: int
    to_email: str

    @property
    def values(self) -> dict[str, Any]:
        values: dict[str, Any] = orjson.loads(self.metadata)
        return values

    @property
    def is_machine(self) -> bool:
        return self.values.get("isMachine") is True

    @property
    def visited_list(self) -> str | None:
        return self.values.get(VISITED_LIST) if self.type == EventType.UNSUBSCRIBED else None

    @property
    def tallied_type(self) -> str:
        return f"{MACHINE}{self.type}" if self.is_machine else self.type


async def lock_responses(tx: Runner, message_keys: Collection[int]) -> None:
    """Wait for other transactions that record opens and clicks of these messages."""
    await tx.run(LOCK_RESPONSES, responses=[(key,) for key in sorted(message_keys)])


async def load_responses(tx: Runner, message_keys: Collection[int]) -> list[StoredResponse]:
    """Return the opens, clicks, unsubscribes and deliveries of messages, in the order of their keys."""
    rows = await tx.run(FIND_RESPONSES, wanted=[(key,) for key in sorted(message_keys)])
    return [
        StoredResponse(
            row.event_key,
            row.message_key,
            row.tenant_id,
            row.type,
            row.created_at,
            row.metadata,
            row.campaign_key,
            row.template_key,
            row.to_email,
        )
        for row in rows
    ]


async def correct_responses(
    tx: Runner, stored: Sequence[StoredResponse], reasons: Mapping[int, str], now: Instant
) -> None:
    """Make responses those of machines, in events and tallies. Call it last, because other transactions wait.

    `stored` contains all responses to the messages, and `reasons` has the keys of those that change.
    """
    before = [each for each in stored if each.type != EventType.DELIVERED]
    kept = [each for each in before if each.visited_list is None or each.event_key not in reasons]
    after = [_by_machine(each, reasons[each.event_key]) if each.event_key in reasons else each for each in kept]
    changed = [each for each in after if each.event_key in reasons]
    rows = [{"event_key": each.event_key, "metadata": each.metadata} for each in changed]
    await tx.count(CORRECT_EVENTS, corrections=rows)
    await tx.count(DELETE_EVENTS, corrections=[(each.event_key,) for each in before if each not in kept])
    wrong = [each for each in before if each.event_key in reasons]
    await append_events(tx, [_correction(each, reasons[each.event_key], now) for each in wrong])
    await _correct_tallies(tx, before, after, now)


def _by_machine(response: StoredResponse, reason: str) -> StoredResponse:
    metadata = {**response.values, "isMachine": True, "machineReason": reason}
    return replace(response, metadata=orjson.dumps(metadata).decode())


def _correction(response: StoredResponse, reason: str, now: Instant) -> dict[str, Any]:
    url = response.values.get("url")
    metadata = {"event": response.type, "eventAt": isoformat(response.created_at), "machineReason": reason}
    event = Event(EventType.CORRECTED, now, metadata if url is None else {**metadata, "url": url})
    return event_row(response.message_key, response.tenant_id, event)


async def _correct_tallies(
    tx: Runner, before: Sequence[StoredResponse], after: Sequence[StoredResponse], now: Instant
) -> None:
    # The tallier waits for this row, or notices that it has read the events before their correction.
    await tx.count(STORE_VALUE, name=CORRECTION, value=uuid7(now))
    positions = {row.name: row.position for row in await tx.run(FIND_TALLY_CURSORS)}
    for account, count in ((TENANTS, _count_by_tenant), (CAMPAIGNS, _count_by_campaign), (LINKS, _count_by_link)):
        up_to = positions.get(account.cursor, 0)
        figures = count([each for each in after if each.event_key <= up_to])
        figures.subtract(count([each for each in before if each.event_key <= up_to]))
        rows = _rows(figures)
        for addition in account.additions if rows else ():
            await tx.count(addition, tallies=rows)


# A row of a tally by its key columns, and one of its figures.
_Figure = tuple[tuple[tuple[str, Any], ...], str]


def _rows(figures: Counter[_Figure]) -> list[dict[str, Any]]:
    """Return the rows that change, in the same order in all transactions. Figures that stay are 0."""
    changed = sorted({row for (row, _), number in figures.items() if number})
    names = {figure for _, figure in figures}
    return [{**dict(row), **{name: figures[row, name] for name in names}} for row in changed]


# The functions below count as `tally_events.sql`, `tally_campaigns.sql` and `tally_links.sql` do.


def _count_by_tenant(responses: Iterable[StoredResponse]) -> Counter[_Figure]:
    figures: Counter[_Figure] = Counter()
    for each in responses:
        row = (("tenant_id", each.tenant_id), ("minute", _minute(each)), ("type", each.tallied_type))
        figures[row, "events"] += 1
    return figures


def _count_by_campaign(responses: Iterable[StoredResponse]) -> Counter[_Figure]:
    figures: Counter[_Figure] = Counter()
    seen: set[tuple[int, str]] = set()
    for each in responses:
        if each.campaign_key is None:
            continue
        names = (("campaign_key", each.campaign_key), ("template_key", each.template_key))
        row = (*names, ("minute", _minute(each)), ("type", each.tallied_type))
        by_person = {(each.message_key, str(type_)) for type_ in ENGAGEMENT}
        own = (each.message_key, each.tallied_type)
        figures[row, "events"] += 1
        figures[row, "unique_messages"] += own not in seen
        figures[row, "first_responses"] += own in by_person and seen.isdisjoint(by_person)
        seen.add(own)
    return figures


def _count_by_link(responses: Iterable[StoredResponse]) -> Counter[_Figure]:
    figures: Counter[_Figure] = Counter()
    seen: set[tuple[int, str]] = set()
    for each in responses:
        if each.campaign_key is None or each.type != EventType.CLICKED:
            continue
        url = str(each.values.get("url") or "")[:MAX_URL_CHARACTERS]
        row = (("campaign_key", each.campaign_key), ("type", each.tallied_type), ("url", url))
        figures[row, "events"] += 1
        figures[row, "unique_messages"] += (each.message_key, each.metadata) not in seen
        seen.add((each.message_key, each.metadata))
    return figures


def _minute(response: StoredResponse) -> Instant:
    return response.created_at - response.created_at % MINUTE
