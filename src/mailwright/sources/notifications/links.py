"""Links between queue rows and the messages created for them, with the status of each message."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.parking import PARKED
from mailwright.sources.notifications.statuses import MessageLinkState
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

COUNT_LOCKED = statement(__package__, "count_locked")
COUNT_IN_PROGRESS = statement(__package__, "count_in_progress")
FIND_LINKS = statement(__package__, "find_links")
FIND_RESULTS = statement(__package__, "find_results")
FIND_RESULTS_OF = statement(__package__, "find_results_of")
FIND_UNSETTLED = statement(__package__, "find_unsettled")
FIND_LOCKED = statement(__package__, "find_locked")
END_LINKS = statement(__package__, "end_links")


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
    sent_event: str  # JSON written to the subscription timeline when the message is sent
    result_at: Instant | None
    retry_after: Instant | None
    counted_before: int  # the message's counted attempts when the row was locked
    counted: int  # the message's counted attempts now
    message_key: int
    status: str
    claimable_at: Instant
    defer_reason: str | None
    is_parked: bool
    provider: str | None
    provider_message_id: str | None
    error_code: str | None
    error_category: str | None
    error_reason: str | None
    sent_at: Instant | None
    failed_at: Instant | None
    in_doubt_since: Instant | None

    @property
    def calls(self) -> int:
        """The completed calls of the provider since the row was locked."""
        return self.counted - self.counted_before


async def find_newest(tx: Runner, queue: str, row_keys: Iterable[str]) -> dict[str, MessageLink]:
    wanted = [{"queue": queue, "row_key": key} for key in row_keys]
    if not wanted:
        return {}
    rows = await tx.run(FIND_LINKS, wanted=wanted, parked=PARKED)
    return {row.row_key: _link(row) for row in rows}


async def count_in_progress(tx: Runner, queue: str, subscription_ids: Iterable[int]) -> Counter[int]:
    """Count the messages of each subscription whose result is not recorded in the queue yet."""
    wanted = [{"queue": queue, "subscription_id": key} for key in set(subscription_ids)]
    return Counter({row.subscription_id: row.in_progress for row in await tx.run(COUNT_IN_PROGRESS, wanted=wanted)})


async def find_results(tx: Runner, queue: str, after: int, limit: int) -> list[MessageLink]:
    """Return links whose message has a result that may be missing in the row, ordered by id."""
    return [_link(row) for row in await tx.run(FIND_RESULTS, queue=queue, after=after, parked=PARKED, limit=limit)]


async def find_results_of(tx: Runner, outbox_ids: Sequence[str]) -> list[MessageLink]:
    """Like `find_results`, for given messages of queues that are in the same database."""
    wanted = [{"outbox_id": outbox_id} for outbox_id in outbox_ids]
    return [_link(row) for row in await tx.run(FIND_RESULTS_OF, wanted=wanted, parked=PARKED)]


async def find_unsettled(tx: Runner, queue: str, after: int, limit: int, *, outage: str) -> list[MessageLink]:
    """Return links whose row must state a doubt or a deferral. `outage` identifies the present outage, if any."""
    parameters = {"queue": queue, "after": after, "limit": limit, "outage": outage, "parked": PARKED}
    return [_link(row) for row in await tx.run(FIND_UNSETTLED, **parameters)]


async def find_locked(tx: Runner, queue: str, worker: str, before: str, limit: int) -> list[MessageLink]:
    """Return the links whose rows this worker locked at `before` or earlier."""
    rows = await tx.run(FIND_LOCKED, queue=queue, worker=worker, before=before, parked=PARKED, limit=limit)
    return [_link(row) for row in rows]


async def count_locked(tx: Runner, queue: str, worker: str) -> int:
    [row] = await tx.run(COUNT_LOCKED, queue=queue, worker=worker)
    return int(row.locked)


async def end_links(tx: Runner, ended: Iterable[tuple[MessageLink, MessageLinkState]]) -> None:
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
