"""Queue entries: the position of a campaign in the queue, with the content that was frozen when it started."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, Select, func, select, update

from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.queue_states import REOPENED
from mailwright.sources.sender_rules import SenderRulesDecision
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns, queue_entries

# The list of a campaign whose recipients come from another source. No list can have this name, so extending such a
# campaign finds no new recipients.
NO_LIST: Final = "guests:"
# The order in which a tenant's campaigns are sent.
QUEUE_ORDER: Final[ColumnElement[int]] = func.coalesce(queue_entries.c.position, queue_entries.c.id)

# The column values that enqueue an audience again from the first address. Recipients who already have a message are
# skipped.
ENQUEUE_AGAIN: Final[dict[str, Any]] = {
    "processed": 0,
    "enqueued_to": "",
    "enqueue_ended_at": None,
    **REOPENED,
}


@dataclass(frozen=True, slots=True)
class CampaignVariant:
    """Frozen content: the template for each locale, with `""` as the default."""

    name: str
    subject: str
    templates: dict[str, int]
    share: int  # percent of the audience, in the order of addresses


@dataclass(frozen=True, slots=True)
class RunningAbTest:
    """An A/B test without a winner: a test group receives the variants, and all other recipients wait."""

    winner_by: str
    wait: Instant
    decides_at: Instant | None = None  # set when the whole test group has its messages
    min_confidence: int = 95  # percent
    if_undecided: str | None = None  # the variant for everyone else if there is no clear result; None: a user chooses
    is_undecided: bool = False  # the results were not clear at `decides_at`, and a user must choose


@dataclass(frozen=True, slots=True)
class RunningWaves:
    """The waves of a campaign before its last one. `percents` include earlier waves."""

    percents: tuple[int, ...]
    wait: Instant
    opens_at: Instant | None = None  # when the next wave may open; set when the current one is sent


@dataclass(frozen=True, slots=True)
class AbTestDecision:
    """How an A/B test was decided, with the results at that time."""

    winner: str
    decided_by: str  # a constant of `ab_test.py`, or the name of the user
    decided_at: Instant
    results: tuple["VariantResult", ...]
    templates: Mapping[str, str] = field(default_factory=dict)  # the variant of each template, by its key


@dataclass(frozen=True, slots=True)
class VariantResult:
    name: str
    sent: int
    engaged: int  # recipients who opened or clicked, depending on the test's metric

    @property
    def share(self) -> float:
        return self.engaged / self.sent if self.sent else 0.0


@dataclass(frozen=True, slots=True)
class CampaignSnapshot:
    """The content and the audience of a campaign, as they were when it started."""

    variants: tuple[CampaignVariant, ...]
    payload: dict[str, Any]  # shared by all messages: sender, reply-to and the campaign's variables
    lists: tuple[str, ...]
    filter: dict[str, Any] | None
    ab_test: RunningAbTest | None = None  # None without an A/B test, and after its winner is chosen
    decision: AbTestDecision | None = None
    sender_rules: SenderRulesDecision | None = None  # None while the audience does not exceed the limit
    has_postal_address: bool = True
    waves: RunningWaves | None = None
    # The filters of the segments whose members see other content, by key.
    segments: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def as_text(self) -> str:
        """Serialize for `queue_entries.content`. Its keys must not change, because started campaigns use them."""
        stored = {"versions": self.variants, "payload": self.payload, "lists": self.lists, "filter": self.filter}
        rules = {"senderRules": self.sender_rules, "hasPostalAddress": self.has_postal_address}
        ab_test = {"contest": self.ab_test, "decision": self.decision}
        waves = {"waves": self.waves} if self.waves is not None else {}
        segments = {"segments": self.segments} if self.segments else {}
        return orjson.dumps({**stored, **ab_test, **rules, **waves, **segments}).decode()

    @classmethod
    def read(cls, text: str) -> "CampaignSnapshot":
        stored = orjson.loads(text)
        variants = tuple(CampaignVariant(**variant) for variant in stored["versions"])
        ab_test = RunningAbTest(**stored["contest"]) if stored["contest"] else None
        rules = SenderRulesDecision(stored["senderRules"]) if stored.get("senderRules") else None
        return cls(
            variants,
            stored["payload"],
            tuple(stored["lists"]),
            stored["filter"],
            ab_test,
            _decision(stored.get("decision")),
            rules,
            stored.get("hasPostalAddress", True),
            _waves(stored.get("waves")),
            stored.get("segments", {}),
        )


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A row of `queue_entries`. A pass goes over the whole audience once and creates its messages."""

    id: int
    campaign_key: int
    campaign_id: str
    campaign_name: str
    campaign_status: CampaignStatus
    tenant_id: int
    lane: int
    content: CampaignSnapshot
    planned: int  # recipients in the audience at the start
    processed: int  # recipients that the current pass has processed
    recipients: int  # messages created, in all passes
    enqueued_to: str  # the last address of the current pass
    enqueue_ended_at: Instant | None
    completed_at: Instant | None
    wave: int | None = None  # the number of the open wave, from 1, while later waves follow

    @property
    def wave_percent(self) -> int:
        """The part of the audience that has a message after the open wave."""
        waves = self.content.waves
        return 100 if waves is None or self.wave is None else waves.percents[self.wave - 1]


async def find_entry(tx: Transaction, campaign_key: int, *, to_change: bool = False) -> QueueEntry | None:
    """Return the queue entry of a campaign. `to_change` locks the campaign until the transaction ends."""
    if to_change:
        # Every transaction locks the campaign's row before its entry, so that two of them cannot deadlock.
        await tx.execute(select(campaigns.c.id).where(campaigns.c.id == campaign_key).with_for_update())
    rows = await tx.execute(_entries().where(queue_entries.c.campaign_key == campaign_key))
    return _entry(rows[0]) if rows else None


async def update_entry(tx: Transaction, campaign_key: int, **changes: Any) -> None:
    await tx.execute(update(queue_entries).where(queue_entries.c.campaign_key == campaign_key).values(**changes))


def _waves(stored: dict[str, Any] | None) -> RunningWaves | None:
    return None if stored is None else RunningWaves(tuple(stored["percents"]), stored["wait"], stored["opens_at"])


def _decision(stored: dict[str, Any] | None) -> AbTestDecision | None:
    if stored is None:
        return None
    results = tuple(VariantResult(**result) for result in stored["results"])
    templates = stored.get("templates", {})
    return AbTestDecision(stored["winner"], stored["decided_by"], stored["decided_at"], results, templates)


def _entries() -> Select[Any]:
    return select(
        *(column for column in queue_entries.c if column.name in QueueEntry.__slots__),
        campaigns.c.campaign_id,
        campaigns.c.name.label("campaign_name"),
        campaigns.c.status.label("campaign_status"),
    ).join(campaigns, campaigns.c.id == queue_entries.c.campaign_key)


def _entry(row: Any) -> QueueEntry:
    fields = dict(row._mapping)
    status = CampaignStatus(row.campaign_status)
    return QueueEntry(**{**fields, "content": CampaignSnapshot.read(fields["content"]), "campaign_status": status})
