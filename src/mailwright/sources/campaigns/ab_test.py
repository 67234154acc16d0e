"""Decide which variant of an A/B test wins, by its results or by a person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mailwright.domain.campaign import CampaignAction
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import audit_log, defer
from mailwright.outbox.tallies import TemplateResults, results_by_template
from mailwright.sources.campaigns.entries import ENQUEUE_AGAIN, CampaignVariant, QueueEntry, update_entry
from mailwright.storage.database import Transaction

# The actor in the audit log if no person decides.
DECIDED_BY_STATISTICS = "figures"


@dataclass(frozen=True, slots=True)
class VariantResult:
    name: str
    sent: int
    engaged: int  # recipients who opened or clicked, whichever decides

    @property
    def share(self) -> float:
        return self.engaged / self.sent if self.sent else 0.0


async def variant_results(tx: Transaction, entry: QueueEntry, winner_by: str) -> list[VariantResult]:
    """Return the results in the order of the variants. Each recipient counts once."""
    results = await results_by_template(tx, entry.campaign_key)
    return [_result(variant, results, winner_by) for variant in entry.content.variants]


def best_variant(results: Sequence[VariantResult]) -> VariantResult:
    """Return the variant with the largest share; the first one of those that are equal."""
    return max(results, key=lambda result: result.share)


async def decide_winner(
    tx: Transaction, entry: QueueEntry, now: Instant, *, actor: str, name: str | None = None
) -> str:
    """Choose the winner, and enqueue it for every recipient without a message, from the first address on."""
    ab_test = entry.content.ab_test
    if ab_test is None:
        raise InvalidInput("the campaign has no undecided A/B test", field="version")
    results = await variant_results(tx, entry, ab_test.winner_by)
    winner = best_variant(results).name if name is None else name
    variant = next((each for each in entry.content.variants if each.name == winner), None)
    if variant is None:
        names = ", ".join(each.name for each in entry.content.variants)
        raise InvalidInput(f"There is no variant {winner}; the variants are {names}", field="version")
    content = replace(entry.content, variants=(replace(variant, share=100),), ab_test=None)
    await update_entry(tx, entry.campaign_key, content=content.as_text(), **ENQUEUE_AGAIN)
    await defer.end_lane_deferral(tx, entry.lane)
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action=f"campaign.{CampaignAction.CHOOSE_WINNER}",
        subject=entry.campaign_id,
        tenant_id=entry.tenant_id,
        detail={
            "winner": winner,
            "by": ab_test.winner_by,
            "versions": [{"name": each.name, "sent": each.sent, "answered": each.engaged} for each in results],
        },
    )
    return winner


def _result(variant: CampaignVariant, results: Mapping[int, TemplateResults], winner_by: str) -> VariantResult:
    """Add up the results of all locales of the variant."""
    own = [results[key] for key in set(variant.templates.values()) if key in results]
    engaged = sum(each.opened if winner_by == "opens" else each.clicked for each in own)
    return VariantResult(variant.name, sum(each.sent for each in own), engaged)
