"""Count the recipients of sends without an approval, so that nobody can split a large send into several small ones."""

from dataclasses import asdict, dataclass
from typing import Final

import orjson
from sqlalchemy import and_, delete, insert, select

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.translation import lazy_gettext, lazy_number
from mailwright.sources.campaigns.approval_people import people_behind
from mailwright.sources.campaigns.repeat_records import SCHEDULE_ACTOR
from mailwright.storage.database import Transaction
from mailwright.storage.tables import tenants, unapproved_sends

# Sends of the same person within this time count together.
COUNTED_FOR: Final[Instant] = DAY

_u = unapproved_sends.c


@dataclass(frozen=True, slots=True)
class UnapprovedSend:
    """A send without an approval.

    Attempts with the same kind and subject are the same send; with an empty subject, each attempt is a separate send.
    """

    tenant_id: int
    kind: str
    subject: str
    recipients: int


async def add_unapproved(tx: Transaction, now: Instant, send: UnapprovedSend, *, over: int, actor: str) -> int:
    """Record a send without an approval, unless it exceeds the tenant's limit together with earlier sends.

    Return the number of recipients of the earlier sends. If the sum exceeds the limit, nothing is recorded.
    """
    tenant_id = send.tenant_id
    if actor == SCHEDULE_ACTOR:
        return 0  # Each repetition of a campaign counts alone, because no person starts it.
    # One process at a time, so that two sends at the same moment count each other.
    await tx.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update())
    people = await people_behind(tx, tenant_id, actor)
    same = and_(_u.kind == send.kind, _u.subject == send.subject, _u.subject != "")
    recent = select(_u.people, _u.recipients).where(_u.tenant_id == tenant_id, _u.at > now - COUNTED_FOR, ~same)
    rows = await tx.execute(recent)
    earlier = sum(int(row.recipients) for row in rows if people & set(orjson.loads(row.people)))
    if earlier + send.recipients > over:
        return earlier
    expired = (_u.tenant_id == tenant_id, same | (_u.at <= now - COUNTED_FOR))
    await tx.execute(delete(unapproved_sends).where(*expired))
    names = orjson.dumps(sorted(people)).decode()
    await tx.execute(insert(unapproved_sends).values(**asdict(send), people=names, at=now))
    return earlier


def split_text(earlier: int) -> str:
    """Return a sentence that says that earlier sends count too."""
    return lazy_gettext(
        "The same person has reached {earlier} without an approval in the last 24 hours.", earlier=lazy_number(earlier)
    )
