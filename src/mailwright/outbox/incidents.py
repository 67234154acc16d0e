"""Count the hard bounces and complaints of campaigns, once for each message, for the guard rails."""

from collections.abc import Collection, Sequence

from mailwright.domain.clock import Instant
from mailwright.domain.guard_rails import Incident
from mailwright.storage.database import Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

ADD_INCIDENTS = statement(__package__, "add_incidents")
COUNT_INCIDENTS = statement(__package__, "count_incidents")
REMOVE_INCIDENTS = statement(__package__, "remove_incidents")


async def record_incidents(tx: Runner, incidents: Sequence[tuple[int, Incident]]) -> None:
    """Record incidents by message key, in the transaction of their reports. Only messages of campaigns count."""
    rows = [{"message_key": key, "kind": kind.value} for key, kind in sorted(set(incidents))]
    if rows:
        await tx.count(ADD_INCIDENTS, incidents=rows)


async def withdraw_complaints(tx: Runner, message_keys: Collection[int]) -> None:
    """Remove the complaints about messages whose recipients took them back."""
    if message_keys:
        rows = [{"message_key": key, "kind": Incident.COMPLAINT.value} for key in sorted(set(message_keys))]
        await tx.count(REMOVE_INCIDENTS, incidents=rows)


async def count_incidents(tx: Transaction, campaign_key: int, since: Instant) -> dict[Incident, int]:
    """Count the messages with each kind of incident whose attempt began after `since`."""
    rows = await tx.run(COUNT_INCIDENTS, campaign_key=campaign_key, since=since)
    return {Incident(row.kind): int(row.messages) for row in rows}
