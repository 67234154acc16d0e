"""Queue entries: a campaign's place in line, with what was frozen when it started."""

from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import Select, select, update

from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Instant
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns, queue_entries


@dataclass(frozen=True, slots=True)
class CampaignVariant:
    """One frozen form of the content: the template for each locale, `""` for everyone else."""

    name: str
    subject: str
    templates: dict[str, int]
    share: int  # of a hundred people, in the order of addresses


@dataclass(frozen=True, slots=True)
class RunningAbTest:
    """Only a part of the audience gets the versions; everyone else waits for the better one."""

    winner_by: str
    wait: Instant
    decides_at: Instant | None = None  # known once the part has got its mail


@dataclass(frozen=True, slots=True)
class CampaignSnapshot:
    """What a campaign says, and to whom, as it was when it started."""

    variants: tuple[CampaignVariant, ...]
    payload: dict[str, Any]  # the same in every message: sender, reply-to, the campaign's own variables
    lists: tuple[str, ...]
    filter: dict[str, Any] | None
    ab_test: RunningAbTest | None = None  # None without an A/B test, and after its winner is chosen

    def as_text(self) -> str:
        """Serialize for `queue_entries.content`, whose keys must stay readable for campaigns that have started."""
        stored = {"versions": self.variants, "payload": self.payload, "lists": self.lists, "filter": self.filter}
        return orjson.dumps({**stored, "contest": self.ab_test}).decode()

    @classmethod
    def read(cls, text: str) -> "CampaignSnapshot":
        stored = orjson.loads(text)
        variants = tuple(CampaignVariant(**variant) for variant in stored["versions"])
        ab_test = RunningAbTest(**stored["contest"]) if stored["contest"] else None
        return cls(variants, stored["payload"], tuple(stored["lists"]), stored["filter"], ab_test)


@dataclass(frozen=True, slots=True)
class QueueEntry:
    id: int
    campaign_key: int
    campaign_id: str
    campaign_status: CampaignStatus
    tenant_id: int
    lane: int
    content: CampaignSnapshot
    planned: int
    processed: int
    recipients: int
    enqueued_to: str
    enqueue_ended_at: Instant | None
    completed_at: Instant | None


async def find_entry(tx: Transaction, campaign_key: int, *, to_change: bool = False) -> QueueEntry | None:
    """`to_change`: nobody else changes it before this transaction ends."""
    if to_change:
        # Whoever changes a campaign or its place takes the campaign's row first: nobody waits for each other.
        await tx.execute(select(campaigns.c.id).where(campaigns.c.id == campaign_key).with_for_update())
    rows = await tx.execute(_entries().where(queue_entries.c.campaign_key == campaign_key))
    return _entry(rows[0]) if rows else None


async def update_entry(tx: Transaction, campaign_key: int, **changes: Any) -> None:
    await tx.execute(update(queue_entries).where(queue_entries.c.campaign_key == campaign_key).values(**changes))


def _entries() -> Select[Any]:
    return select(
        *(column for column in queue_entries.c if column.name in QueueEntry.__slots__),
        campaigns.c.campaign_id,
        campaigns.c.status.label("campaign_status"),
    ).join(campaigns, campaigns.c.id == queue_entries.c.campaign_key)


def _entry(row: Any) -> QueueEntry:
    fields = dict(row._mapping)
    status = CampaignStatus(row.campaign_status)
    return QueueEntry(**{**fields, "content": CampaignSnapshot.read(fields["content"]), "campaign_status": status})
