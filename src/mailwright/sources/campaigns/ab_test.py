"""Decide which variant of an A/B test wins: by its results if they are clear, by a setting, or by a user."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

from mailwright.audience.responses import SETTLES_AFTER
from mailwright.domain.campaign import GUARD_RAILS, INDEFINITELY, PAUSED, UNDECIDED, CampaignAction
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log, defer
from mailwright.outbox.tallies import TemplateResults, count_untallied, results_by_template, settled_results_by_template
from mailwright.sources.campaigns.definition import MANUAL, AbTest
from mailwright.sources.campaigns.entries import (
    ENQUEUE_AGAIN,
    AbTestDecision,
    CampaignVariant,
    QueueEntry,
    RunningAbTest,
    VariantResult,
    update_entry,
)
from mailwright.sources.campaigns.probability import probabilities_to_be_best
from mailwright.storage.database import Transaction

# The actor in the audit log and in the decision if no user decided.
DECIDED_BY_STATISTICS: Final = "figures"
DECIDED_BY_SETTING: Final = "setting"


class AbTestState(StrEnum):
    NO_WINNER = "no_winner"  # the variants share the whole audience
    RUNNING = "running"
    UNDECIDED = "undecided"  # the results are not clear, or a user must choose in any case
    DECIDED = "decided"


@dataclass(frozen=True, slots=True)
class AbTestReport:
    """The current results of an A/B test, or those at the time of its decision."""

    state: AbTestState
    winner_by: str
    results: tuple[VariantResult, ...]
    min_confidence: int
    winner: str | None = None
    decided_by: str | None = None
    decides_at: Instant | None = None
    can_choose: bool = False  # the test group has all its messages and no winner is chosen yet
    if_undecided: str | None = None  # the variant that the campaign's setting chooses without a clear result

    @property
    def evidence(self) -> tuple["VariantEvidence", ...]:
        """The results with each variant's rate and its probability to be the best."""
        probabilities = _probabilities(self.results)
        return tuple(
            VariantEvidence(each.name, each.sent, each.engaged, each.share, probability)
            for each, probability in zip(self.results, probabilities, strict=True)
        )

    @property
    def leader(self) -> str | None:
        """The variant with the largest share, whether or not its lead is clear; None if several are equal."""
        ranked = sorted(self.results, key=lambda result: result.share, reverse=True)
        return ranked[0].name if ranked[0].share > ranked[1].share else None


@dataclass(frozen=True, slots=True)
class VariantEvidence:
    """The result of one variant. `probability` is the probability that no other variant has a higher rate."""

    name: str
    sent: int
    engaged: int
    rate: float
    probability: float


async def load_report(tx: Transaction, entry: QueueEntry, ab_test: AbTest) -> AbTestReport:
    """Return the report of a started campaign with an A/B test."""
    decision, running = entry.content.decision, entry.content.ab_test
    if decision is not None:
        return AbTestReport(
            AbTestState.DECIDED,
            ab_test.winner_by,
            decision.results,
            ab_test.min_confidence,
            winner=decision.winner,
            decided_by=decision.decided_by,
            if_undecided=ab_test.if_undecided,
        )
    results = tuple(await variant_results(tx, entry, ab_test.winner_by))
    if running is None:
        return AbTestReport(AbTestState.NO_WINNER, ab_test.winner_by, results, ab_test.min_confidence)
    return AbTestReport(
        AbTestState.UNDECIDED if running.is_undecided else AbTestState.RUNNING,
        ab_test.winner_by,
        results,
        ab_test.min_confidence,
        decides_at=running.decides_at,
        can_choose=entry.enqueue_ended_at is not None,
        if_undecided=ab_test.if_undecided,
    )


async def variant_results(tx: Transaction, entry: QueueEntry, winner_by: str) -> list[VariantResult]:
    """Return the results in the order of the variants. Each recipient counts once."""
    results = await results_by_template(tx, entry.campaign_key)
    return [_result(variant, results, winner_by) for variant in entry.content.variants]


async def _settled_results(tx: Transaction, entry: QueueEntry, winner_by: str, now: Instant) -> list[VariantResult]:
    """Return the results without the last seconds, which may be the beginning of a link scanner's burst."""
    results = await settled_results_by_template(tx, entry.campaign_key, since=now - SETTLES_AFTER)
    return [_result(variant, results, winner_by) for variant in entry.content.variants]


def find_winner(results: Sequence[VariantResult], min_confidence: int) -> VariantResult | None:
    """Return the variant that is the best one with at least this probability in percent, or None."""
    best, probability = max(zip(results, _probabilities(results), strict=True), key=lambda pair: pair[1])
    return best if probability >= min_confidence / 100 and best.engaged else None


def _probabilities(results: Sequence[VariantResult]) -> list[float]:
    return probabilities_to_be_best([(each.sent, each.engaged) for each in results])


async def end_test(tx: Transaction, entry: QueueEntry, test: RunningAbTest, now: Instant) -> None:
    """Decide the test by its results, or by its setting if they are not clear, or leave it to a user.

    If the tallies lag, the results are not complete, and the decision waits for them. Opens and clicks of the last
    seconds do not count, as in segments and sequences.
    """
    if await count_untallied(tx):
        return
    results = await _settled_results(tx, entry, test.winner_by, now)
    winner = None if test.winner_by == MANUAL else find_winner(results, test.min_confidence)
    if winner is not None:
        await decide_winner(tx, entry, now, actor=DECIDED_BY_STATISTICS, name=winner.name, results=results)
    elif test.if_undecided is not None:
        await decide_winner(tx, entry, now, actor=DECIDED_BY_SETTING, name=test.if_undecided)
    else:
        content = replace(entry.content, ab_test=replace(test, is_undecided=True))
        await update_entry(tx, entry.campaign_key, content=content.as_text())
        await defer.record_lane_deferral(tx, entry.lane, UNDECIDED, INDEFINITELY)
        detail = _detail(test.winner_by, results)
        await _record(tx, entry, now, actor=DECIDED_BY_STATISTICS, action=UNDECIDED, detail=detail)


def variants_by_template(variants: Sequence[CampaignVariant]) -> dict[str, str]:
    """Return the name of the variant of each template. The keys are text, because they are stored as JSON."""
    return {str(key): variant.name for variant in variants for key in variant.templates.values()}


async def decide_winner(
    tx: Transaction,
    entry: QueueEntry,
    now: Instant,
    *,
    actor: str,
    name: str,
    results: Sequence[VariantResult] | None = None,
) -> None:
    """Make the variant the winner, and enqueue it for every recipient without a message, from the first address on.

    `results` are those that decided; None for the current ones.
    """
    ab_test = entry.content.ab_test
    if ab_test is None:
        raise InvalidInput("the campaign has no undecided A/B test", field="version")
    variant = next((each for each in entry.content.variants if each.name == name), None)
    if variant is None:
        names = ", ".join(each.name for each in entry.content.variants)
        raise InvalidInput(
            "There is no variant {name}; the variants are {names}", field="version", name=name, names=names
        )
    if results is None:
        results = await variant_results(tx, entry, ab_test.winner_by)
    decision = AbTestDecision(name, actor, now, tuple(results), variants_by_template(entry.content.variants))
    content = replace(entry.content, variants=(replace(variant, share=100),), ab_test=None, decision=decision)
    await update_entry(tx, entry.campaign_key, content=content.as_text(), **ENQUEUE_AGAIN)
    await defer.end_lane_deferral(tx, entry.lane, but=(PAUSED, GUARD_RAILS))
    detail = {"winner": name, **_detail(ab_test.winner_by, results)}
    await _record(tx, entry, now, actor=actor, action=CampaignAction.CHOOSE_WINNER, detail=detail)


def _detail(winner_by: str, results: Sequence[VariantResult]) -> dict[str, Any]:
    versions = [
        {"name": each.name, "sent": each.sent, "answered": each.engaged, "probability": round(probability, 4)}
        for each, probability in zip(results, _probabilities(results), strict=True)
    ]
    return {"by": winner_by, "versions": versions}


async def _record(
    tx: Transaction, entry: QueueEntry, now: Instant, *, actor: str, action: str, detail: dict[str, Any]
) -> None:
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action=f"campaign.{action}",
        subject=entry.campaign_id,
        tenant_id=entry.tenant_id,
        detail={"name": entry.campaign_name, **detail},
    )


def _result(variant: CampaignVariant, results: Mapping[int, TemplateResults], winner_by: str) -> VariantResult:
    """Add up the results of all locales of the variant."""
    own = [results[key] for key in set(variant.templates.values()) if key in results]
    engaged = sum(each.opened if winner_by == "opens" else each.clicked for each in own)
    return VariantResult(variant.name, sum(each.sent for each in own), engaged)
