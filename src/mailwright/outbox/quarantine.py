"""Messages that may have been sent between a backup and its restore: list them, send them again, or drop them."""

from dataclasses import asdict
from typing import Final

from sqlalchemy import func, select, text

from mailwright.domain.clock import Clock
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.states import Resolution
from mailwright.outbox import audit_log
from mailwright.outbox.operations import count_final_state, outcome_of
from mailwright.outbox.sending_hold import COMMITS_LOST, ERROR_CODE, SendingHold, load_hold
from mailwright.outbox.settle import append_events, event_row
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import deliveries

QUARANTINED = statement(__package__, "quarantined")
RESOLVE_RESTORED = statement(__package__, "resolve_restored")

BATCH = 500


@dataclass(frozen=True, slots=True)
class QuarantinedMessages:
    """Counts of messages of one source or campaign that may have been sent.

    `reported` is the number of messages that a provider has reported and that were therefore sent.
    """

    tenant: str
    source: str
    campaign_id: str | None
    campaign_name: str | None
    messages: int
    reported: int


@dataclass(frozen=True, slots=True)
class QuarantineFilter:
    """The messages that a decision applies to. None means any; the campaign "" means messages without a campaign."""

    tenant: str | None = None
    source: str | None = None
    campaign_id: str | None = None

    def matches(self, each: QuarantinedMessages) -> bool:
        pairs = (self.tenant, each.tenant), (self.source, each.source), (self.campaign_id, each.campaign_id or "")
        return all(wanted in (None, value) for wanted, value in pairs)


EVERYTHING: Final = QuarantineFilter()


@dataclass(frozen=True, slots=True)
class Quarantine:
    hold: SendingHold | None
    messages: list[QuarantinedMessages]

    def count_undecided(self, only: QuarantineFilter = EVERYTHING) -> int:
        """Return how many messages a decision would change. Raise an error if there is nothing to decide."""
        found = [each for each in self.messages if only.matches(each)]
        if only != EVERYTHING and self.hold is not None:
            raise NotPossibleNow(
                "Sending is on hold. Decide about all messages, or first resume it with all due messages in doubt and "
                "then decide about each source and campaign."
            )
        if not found and (only != EVERYTHING or self.hold is None):
            raise NotPossibleNow("No message is in quarantine and sending is not on hold, so there is nothing to do.")
        return sum(each.messages - each.reported for each in found)


async def find_quarantine(database: Database) -> Quarantine:
    async with database.read() as tx:
        hold = await load_hold(tx)
        rows = await tx.run(QUARANTINED, since=0 if hold is None else hold.since)
    found = [
        QuarantinedMessages(
            row.tenant, row.source, row.campaign_id, row.campaign_name, int(row.messages), int(row.reported)
        )
        for row in rows
    ]
    return Quarantine(hold, found)


async def count_quarantined(database: Database) -> int:
    """Return the number of messages in doubt because of a restore. Reads only messages in doubt."""
    d = deliveries.c
    restored = (text("status = 'IN_DOUBT'"), d.error_code.in_((ERROR_CODE, COMMITS_LOST)))
    async with database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(deliveries).where(*restored)))[0][0])


async def resolve_quarantined(
    database: Database, clock: Clock, resolution: Resolution, *, actor: str, only: QuarantineFilter = EVERYTHING
) -> int:
    """Resolve the messages that a restore put in doubt, and return their number. Expired ones are not sent again."""
    chosen = asdict(only)
    status, event = outcome_of(resolution)
    count, is_last = 0, False
    while not is_last:
        now = clock.now()
        resolved = Event(event, now, {"resolvedBy": "operator", "as": resolution, "by": "quarantine"})
        async with database.write() as tx:
            rows = await tx.run(RESOLVE_RESTORED, status=status, now=now, limit=BATCH, **chosen)
            is_last = len(rows) < BATCH
            count += len(rows)
            if rows:
                await append_events(tx, [event_row(row.message_key, row.tenant_id, resolved) for row in rows])
            if is_last and count:
                detail = {"as": resolution, "messages": count} | {k: v for k, v in chosen.items() if v is not None}
                await audit_log.record(
                    tx, now, actor=actor, action="quarantine.resolve", subject="installation", tenant_id=None,
                    detail=detail,
                )  # fmt: skip
    count_final_state(status, count)
    return count
