"""Experiments: which version did better, and what follows. Decided once, by the figures or by a person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mailwright.domain.campaign import CampaignAction
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import audit_log, defer
from mailwright.outbox.tallies import TemplateResults, results_by_template
from mailwright.sources.campaigns.entries import CampaignVariant, QueueEntry, update_entry
from mailwright.storage.database import Transaction

# Who decides where no person does.
DECIDED_BY_STATISTICS = "figures"


@dataclass(frozen=True, slots=True)
class VariantResult:
    """How one version did."""

    name: str
    sent: int
    answered: int

    @property
    def share(self) -> float:
        return self.answered / self.sent if self.sent else 0.0


async def variant_results(tx: Transaction, entry: QueueEntry, winner_by: str) -> list[VariantResult]:
    """In the order of the versions. A reader counts once, however often they opened or clicked."""
    found = await results_by_template(tx, entry.campaign_key)
    return [_standing(version, found, winner_by) for version in entry.content.variants]


def best_variant(found: Sequence[VariantResult]) -> VariantResult:
    """The larger share wins; among equals the one that was written down first."""
    return max(found, key=lambda each: each.share)


async def decide_winner(
    tx: Transaction, entry: QueueEntry, now: Instant, *, actor: str, name: str | None = None
) -> str:
    """The winner is for everyone who has no mail yet: they are met by a second walk from the first address on."""
    contest = entry.content.ab_test
    if contest is None:
        raise InvalidInput("the campaign has no experiment that is to be decided", field="version")
    found = await variant_results(tx, entry, contest.winner_by)
    chosen = best_variant(found).name if name is None else name
    version = next((each for each in entry.content.variants if each.name == chosen), None)
    if version is None:
        names = ", ".join(each.name for each in entry.content.variants)
        raise InvalidInput(f"there is no version {chosen}; there are {names}", field="version")
    content = replace(entry.content, variants=(replace(version, share=100),), ab_test=None)
    fresh = {"processed": 0, "enqueued_to": "", "enqueue_ended_at": None, "completed_at": None}
    await update_entry(tx, entry.campaign_key, content=content.as_text(), **fresh)
    await defer.end_lane_deferral(tx, entry.lane)
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action=f"campaign.{CampaignAction.CHOOSE_WINNER}",
        subject=entry.campaign_id,
        tenant_id=entry.tenant_id,
        detail={
            "winner": chosen,
            "by": contest.winner_by,
            "versions": [{"name": each.name, "sent": each.sent, "answered": each.answered} for each in found],
        },
    )
    return chosen


def _standing(version: CampaignVariant, found: Mapping[int, TemplateResults], winner_by: str) -> VariantResult:
    """Over all of its locales. Whoever clicked has opened it, even if no picture told."""
    mine = [found[key] for key in set(version.templates.values()) if key in found]
    answered = (each.opened if winner_by == "opens" else each.clicked for each in mine)
    return VariantResult(version.name, sum(each.sent for each in mine), sum(answered))
