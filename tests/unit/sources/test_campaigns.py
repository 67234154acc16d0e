"""Definitions of campaigns and their allowed actions, without a database."""

import math
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from mailwright.domain.buckets import Bucket
from mailwright.domain.campaign import ALLOWED_STATUSES, CampaignAction, CampaignStatus
from mailwright.sources.campaigns.ab_test import VariantResult, find_winner
from mailwright.sources.campaigns.definition import CampaignDefinition, CampaignLimits
from mailwright.sources.campaigns.enqueue import size_of_test_group
from mailwright.sources.campaigns.entries import CampaignSnapshot, CampaignVariant, RunningAbTest
from mailwright.sources.campaigns.probability import probabilities_to_be_best
from mailwright.sources.campaigns.progress import CampaignMessageCounts
from tests.campaigns import a_definition


def test_every_campaign_action_has_its_allowed_statuses() -> None:
    assert ALLOWED_STATUSES.keys() == set(CampaignAction)
    ended = {action for action, possible in ALLOWED_STATUSES.items() if CampaignStatus.CANCELLED in possible}
    # A cancelled campaign cannot be resumed.
    removal = {CampaignAction.ARCHIVE, CampaignAction.DELETE, CampaignAction.RESTORE}
    # A request for approval that is still open can be closed.
    requests = {CampaignAction.REJECT, CampaignAction.WITHDRAW_REQUEST}
    others = {CampaignAction.TEST, CampaignAction.RESOLVE_IN_DOUBT, CampaignAction.STOP_REPEAT}
    assert ended == others | requests | removal


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Two\r\nlines"},
        {"from": "nobody"},
        {"content": {"subject": "Both", "body": "<p></p>", "templateId": "welcome"}},
        {"lists": ["No Such Key"]},
        {"experiment": {"variants": [{"name": "alone"}]}},
        {"experiment": {"variants": [{"name": "A"}, {"name": "A"}]}},
        {"unknown": 1},
    ],
)
def test_invalid_definition_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        a_definition(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ratePerHour": 0},
        {"dailyLimit": -1},
        {"workingHours": "9-17"},
        {"workingHours": "09:00-09:00"},
        {"timezone": "Mars/Olympus"},
    ],
)
def test_invalid_limits_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CampaignLimits.model_validate(wrong)


def test_definition_survives_storage() -> None:
    plain = a_definition(sender="Us <us@example.com>", limits={"ratePerHour": 5}, scheduledAt=1_800_000_000_000)
    assert CampaignDefinition.model_validate_json(plain.model_dump_json(by_alias=True, exclude_none=True)) == plain


def test_snapshot_survives_storage() -> None:
    versions = (CampaignVariant("A", "Hello", {"pt-BR": 3, "": 2}, 10), CampaignVariant("B", "Hi", {"": 4}, 10))
    frozen = CampaignSnapshot(
        versions, {"variables": {"a": 1}}, ("news",), {"tag": "vip"}, RunningAbTest("clicks", 60_000)
    )
    assert CampaignSnapshot.read(frozen.as_text()) == frozen


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [((100, 5), (100, 25), "B"), ((100, 25), (100, 5), "A"), ((100, 5), (10, 1), None), ((0, 0), (0, 0), None)],
)
def test_only_a_clear_lead_wins(first: tuple[int, int], second: tuple[int, int], winner: str | None) -> None:
    found = find_winner([VariantResult("A", *first), VariantResult("B", *second)], min_confidence=95)
    assert (found.name if found else None) == winner


@pytest.mark.parametrize(
    "results",
    [
        [(0, 0), (0, 0)],
        [(10, 3), (10, 1)],
        [(100, 5), (100, 25)],
        [(3, 3), (3, 0)],
        [(10, 9), (100_000, 20_000)],
        [(1_000, 30), (1_000, 45), (1_000, 31)],
        [(1_000_000, 9_900), (1_000_000, 10_000)],
    ],
)
def test_probability_to_be_best_agrees_with_scipy(results: list[tuple[int, int]]) -> None:
    stats, integrate = pytest.importorskip("scipy.stats"), pytest.importorskip("scipy.integrate")
    rates = [stats.beta(engaged + 1, sent - engaged + 1) for sent, engaged in results]
    bounds = sorted({0.0, 1.0, *(float(each) for rate in rates for each in rate.ppf([1e-9, 0.5, 1 - 1e-9]))})

    def is_best(number: int, rate: float) -> float:
        below = math.prod(each.cdf(rate) for other, each in enumerate(rates) if other != number)
        return float(rates[number].pdf(rate) * below)

    expected = [
        sum(integrate.quad(partial(is_best, number), low, high)[0] for low, high in pairwise(bounds))
        for number in range(len(rates))
    ]
    assert probabilities_to_be_best(results) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([(0, 0), (0, 0), (0, 0)], [1 / 3] * 3),
        ([(10, 3), (10, 1)], [0.8446, 0.1554]),
        ([(20, 2), (20, 6)], [0.0650, 0.9350]),
        ([(1_000, 30), (1_000, 45), (1_000, 31)], [0.0343, 0.9187, 0.0470]),
    ],
)
def test_probability_to_be_best_has_known_values(results: list[tuple[int, int]], expected: list[float]) -> None:
    assert probabilities_to_be_best(results) == pytest.approx(expected, abs=1e-4)


def test_manual_choice_has_no_fallback() -> None:
    variants = [{"name": "A"}, {"name": "B"}]
    with pytest.raises(ValidationError, match="manual"):
        a_definition(experiment={"variants": variants, "winnerBy": "manual", "ifUndecided": "A"})


def test_test_group_is_rounded_up_within_the_audience() -> None:
    assert [size_of_test_group(people, 20) for people in (0, 1, 5, 6, 100)] == [0, 1, 1, 2, 20]
    assert [size_of_test_group(people, 100) for people in (0, 1, 7)] == [0, 1, 7]


def test_percent_counts_all_finished_messages() -> None:
    counted = {"waiting": 90, "sending": 10, "sent": 38, "bounced": 2, "failed": 4, "suppressed": 3}
    counted |= {"in_doubt": 2, "closed_unknown": 1, "not_enqueued": 50}
    buckets = {bucket: counted.get(bucket, 0) for bucket in Bucket}
    counts = CampaignMessageCounts(200, 150, buckets)
    assert (counts.audience, counts.done, counts.percent) == (200, 50, 25.0)
    assert CampaignMessageCounts(0, 0, dict.fromkeys(Bucket, 0)).percent == 0.0
