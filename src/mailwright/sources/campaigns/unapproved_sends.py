"""Count the recipients of sends without an approval, so that nobody can split a large send into several small ones."""

from dataclasses import asdict
from typing import Final

import orjson
from sqlalchemy import ColumnElement, and_, delete, insert, select, update

from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext, lazy_number
from mailwright.sources.campaigns.approval_people import people_behind
from mailwright.sources.campaigns.repeat_records import SCHEDULE_ACTOR
from mailwright.storage.database import Transaction
from mailwright.storage.tables import tenants, unapproved_sends

# Sends of the same person within this time count together.
COUNTED_FOR: Final[Instant] = DAY
MESSAGES: Final = "messages"  # the kind of messages without a campaign

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
    people = await _lock_and_identify(tx, tenant_id, actor)
    same = and_(_u.kind == send.kind, _u.subject == send.subject, _u.subject != "")
    earlier = await _count_recent(tx, now, tenant_id, people, but=same)
    if earlier + send.recipients > over:
        return earlier
    expired = (_u.tenant_id == tenant_id, same | (_u.at <= now - COUNTED_FOR))
    await tx.execute(delete(unapproved_sends).where(*expired))
    await tx.execute(insert(unapproved_sends).values(**asdict(send), people=_names(people), at=now))
    return earlier


async def add_unapproved_messages(
    tx: Transaction, now: Instant, tenant_id: int, recipients: int, *, over: int, actor: str
) -> int:
    """Record single messages without an approval, in the same way.

    The messages of a person in one hour share a row, so that the number of rows stays small.
    """
    people = await _lock_and_identify(tx, tenant_id, actor)
    earlier = await _count_recent(tx, now, tenant_id, people)
    if earlier + recipients > over:
        return earlier
    await tx.execute(delete(unapproved_sends).where(_u.tenant_id == tenant_id, _u.at <= now - COUNTED_FOR))
    row = {"tenant_id": tenant_id, "kind": MESSAGES, "subject": str(now // HOUR), "people": _names(people)}
    matching = [column == row[column.name] for column in (_u.tenant_id, _u.kind, _u.subject, _u.people)]
    added = update(unapproved_sends).where(*matching).values(recipients=_u.recipients + recipients, at=now)
    if not await tx.execute(added.returning(_u.id)):
        await tx.execute(insert(unapproved_sends).values(**row, recipients=recipients, at=now))
    return earlier


async def _lock_and_identify(tx: Transaction, tenant_id: int, actor: str) -> frozenset[str]:
    """Return what identifies the person. One process at a time, so that sends at the same moment count each other."""
    await tx.execute(select(tenants.c.id).where(tenants.c.id == tenant_id).with_for_update())
    return await people_behind(tx, tenant_id, actor)


async def _count_recent(
    tx: Transaction, now: Instant, tenant_id: int, people: frozenset[str], *, but: ColumnElement[bool] | None = None
) -> int:
    recent = select(_u.people, _u.recipients).where(_u.tenant_id == tenant_id, _u.at > now - COUNTED_FOR)
    rows = await tx.execute(recent if but is None else recent.where(~but))
    return sum(int(row.recipients) for row in rows if people & set(orjson.loads(row.people)))


def _names(people: frozenset[str]) -> str:
    return orjson.dumps(sorted(people)).decode()


def split_text(earlier: int) -> str:
    """Return a sentence that says that earlier sends count too."""
    return lazy_gettext(
        "The same person has reached {earlier} without an approval in the last 24 hours.", earlier=lazy_number(earlier)
    )
