"""Links: which row of a queue became which message, and where that message stands."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mailwright.domain.campaign import INDEFINITELY
from mailwright.domain.clock import Instant
from mailwright.sources.notifications.statuses import MessageLinkState
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

COUNT_HELD = statement(__package__, "count_held")
COUNT_UNDER_WAY = statement(__package__, "count_under_way")
FIND_LINKS = statement(__package__, "find_links")
FIND_RESULTS = statement(__package__, "find_results")
FIND_RESULTS_OF = statement(__package__, "find_results_of")
FIND_HELD = statement(__package__, "find_held")
END_LINKS = statement(__package__, "end_links")

# A message that is due then is parked: nobody sends it until its row is locked again.
PARKED: Instant = INDEFINITELY


@dataclass(frozen=True, slots=True)
class MessageLink:
    id: int
    tenant_id: int
    queue: str
    queue_schema: str | None
    notification_id: int
    row_key: str
    generation: int
    subscription_id: int
    outbox_id: str
    state: MessageLinkState
    locked_by: str
    locked_at: str
    attempts_before: int
    max_attempts: int
    sent_event: str
    result_at: Instant | None
    retry_after: Instant | None
    message_key: int
    status: str
    is_parked: bool
    provider: str | None
    provider_message_id: str | None
    error_code: str | None
    error_category: str | None
    error_reason: str | None
    sent_at: Instant | None
    failed_at: Instant | None
    in_doubt_since: Instant | None


async def newest(tx: Runner, queue: str, row_keys: Iterable[str]) -> dict[str, MessageLink]:
    wanted = [{"queue": queue, "row_key": each} for each in row_keys]
    if not wanted:
        return {}
    rows = await tx.run(FIND_LINKS, wanted=wanted, parked=PARKED)
    return {row.row_key: _link(row) for row in rows}


async def under_way(tx: Runner, queue: str, subscription_ids: Iterable[int]) -> Counter[int]:
    """How many messages of each subscription have no result that its rows were told."""
    wanted = [{"queue": queue, "subscription_id": each} for each in set(subscription_ids)]
    return Counter({row.subscription_id: row.under_way for row in await tx.run(COUNT_UNDER_WAY, wanted=wanted)})


async def untold(tx: Runner, queue: str, after: int, limit: int) -> list[MessageLink]:
    """Those whose message has a result that the row may not have yet, in the order of their numbers."""
    return [_link(row) for row in await tx.run(FIND_RESULTS, queue=queue, after=after, parked=PARKED, limit=limit)]


async def untold_here(tx: Runner, outbox_ids: Sequence[str]) -> list[MessageLink]:
    """The same for some messages, of queues that are in this very database."""
    wanted = [{"outbox_id": each} for each in outbox_ids]
    return [_link(row) for row in await tx.run(FIND_RESULTS_OF, wanted=wanted, parked=PARKED)]


async def held(tx: Runner, queue: str, worker: str, before: str, limit: int) -> list[MessageLink]:
    """Those that a worker sends under locks of this age or older."""
    rows = await tx.run(FIND_HELD, queue=queue, worker=worker, before=before, parked=PARKED, limit=limit)
    return [_link(row) for row in rows]


async def count_held(tx: Runner, queue: str, worker: str) -> int:
    [row] = await tx.run(COUNT_HELD, queue=queue, worker=worker)
    return int(row.held)


async def end(tx: Runner, ended: Iterable[tuple[MessageLink, MessageLinkState]]) -> None:
    rows = [
        {"id": link.id, "locked_by": link.locked_by, "locked_at": link.locked_at, "state": state.value}
        for link, state in ended
    ]
    if rows:
        await tx.count(END_LINKS, ended=rows)


def _link(row: Any) -> MessageLink:
    fields = dict(zip(row._fields, row, strict=True))
    fields["state"], fields["is_parked"] = MessageLinkState(row.state), bool(row.is_parked)
    return MessageLink(**fields)
