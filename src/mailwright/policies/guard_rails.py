"""Judge whether a campaign has passed one of its guard rails."""

from math import exp, lgamma, log, log1p

from mailwright.domain.guard_rails import GuardFinding, GuardRails, Incident, IncidentCounts

# The significance level of a threshold: the campaign has passed it only if chance would explain the number of incidents
# with at most this probability.
MAX_CHANCE = 0.05
# Smaller terms of the sum are ignored.
_NEGLIGIBLE = 1e-12


def judge(rails: GuardRails, counts: IncidentCounts) -> GuardFinding | None:
    """Return the strictest threshold that the campaign has passed, or None if it may continue as it is.

    A share of a few messages says little, so a threshold is passed only if the campaign has `min_messages` messages
    with a result, at least two incidents, and more of them than chance explains.
    """
    if counts.messages < rails.min_messages:
        return None
    found = [
        GuardFinding(kind, action, counts.of(kind), counts.messages, threshold)
        for kind in Incident
        for action, threshold in rails.thresholds(kind)
        if is_passed(counts.of(kind), counts.messages, threshold)
    ]
    return max(found, key=lambda finding: finding.action.severity, default=None)


def is_passed(incidents: int, messages: int, threshold: float) -> bool:
    """Return whether the share of incidents is above the threshold in percent, and not by chance."""
    share = threshold / 100
    if share <= 0 or incidents < 2 or incidents <= messages * share:
        return False
    return chance_of_more(incidents, messages, share) <= MAX_CHANCE


def chance_of_more(incidents: int, messages: int, share: float) -> float:
    """Return how likely at least this many incidents are if each message has one with this probability.

    A result above `MAX_CHANCE` is a lower bound.
    """
    if share >= 1:
        return 1.0
    total = 0.0
    for number in range(incidents, messages + 1):
        choices = lgamma(messages + 1) - lgamma(number + 1) - lgamma(messages - number + 1)
        term = exp(choices + number * log(share) + (messages - number) * log1p(-share))
        total += term
        is_falling = number > messages * share
        if total > MAX_CHANCE or (is_falling and term < _NEGLIGIBLE):
            break
    return total
