"""Compare what was accepted, its states and what the receiver has."""

import re
from collections import Counter
from typing import Any

import orjson
from sqlalchemy import select

from mailwright.domain.states import OPEN, EventType, Status
from mailwright.storage.tables import deliveries, events, messages
from tests.faults.figures import Figures
from tests.faults.stage import Stage

LISTED = (Status.FAILED, Status.IN_DOUBT, Status.CLOSED_UNKNOWN)
WORKER = re.compile(r"The worker (\S+) stopped")


async def standing(stage: Stage) -> dict[str, Any]:
    """Return each message's row by its outbox ID."""
    query = select(messages.c.outbox_id, messages.c.is_bulk, messages.c.to_email, deliveries).join(
        deliveries, deliveries.c.message_key == messages.c.id
    )
    async with stage.database.read() as tx:
        return {row.outbox_id: row for row in await tx.execute(query)}


async def compare(stage: Stage, figures: Figures, *, failed: int = 0) -> None:
    """Check that nothing is lost or open, and that only messages in doubt are duplicated."""
    rows, received = await standing(stage), stage.received()
    missing = [key for key in stage.accepted if key not in rows]
    unsent = [key for key, row in rows.items() if row.status == Status.SENT and not received[key]]
    doubled = [key for key, times in received.items() if key in rows and times > 1 + rows[key].resends]
    bulk_doubled = [key for key, times in received.items() if key in rows and times > 1 and rows[key].is_bulk]
    in_doubt = [row for row in rows.values() if row.status == Status.IN_DOUBT]
    figures.note("messages", len(rows))
    figures.none("lost", missing + unsent)
    figures.none("received and not accepted", [key for key in received if key not in rows])
    figures.none("unreported duplicates", doubled)
    figures.none("bulk duplicates", bulk_doubled)
    figures.none("left open", [key for key, row in rows.items() if row.status in OPEN])
    found = [key for key, row in rows.items() if row.status == Status.FAILED]
    figures.expect("failed", len(found), f"{failed}", when=len(found) == failed)
    if found:
        figures.note("failed because of", dict(Counter(rows[key].error_code for key in found)))
    figures.note("resent after a doubt", sum(row.resends for row in rows.values()))
    figures.note("of these twice at the sink", sum(1 for key, times in received.items() if times > 1))
    figures.note(
        "held in doubt (bulk, other)", f"{sum(r.is_bulk for r in in_doubt)}, {sum(not r.is_bulk for r in in_doubt)}"
    )
    figures.note("held in doubt and not at the sink", sum(1 for row in in_doubt if not received[row.outbox_id]))
    figures.expect("audit identity at the end", await stage.identity_holds(), "True", when=await stage.identity_holds())


async def doubts_by_worker(stage: Stage) -> Counter[str]:
    """Count the messages that each lost worker left in doubt."""
    async with stage.database.read() as tx:
        rows = await tx.execute(select(events.c.metadata).where(events.c.type == EventType.IN_DOUBT))
    reasons = [_metadata(row[0]).get("errorMessage") or "" for row in rows]
    return Counter(found[1] for reason in reasons if (found := WORKER.search(reason)))


def _metadata(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(value) if isinstance(value, str | bytes) else value
    return found
