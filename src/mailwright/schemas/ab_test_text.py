"""The state of an A/B test in words, for the dashboard and the command line."""

from mailwright.sources.campaigns.ab_test import DECIDED_BY_SETTING, DECIDED_BY_STATISTICS, AbTestReport, AbTestState
from mailwright.sources.campaigns.definition import MANUAL


def ab_test_text(report: AbTestReport) -> str:
    """Return the state and the evidence: `A/B test running: … plain 1 of 10 clicks (10.0 %, best with 0.1 %), …`"""
    results = ", ".join(
        f"{each.name} {each.engaged:,} of {each.sent:,} {metric_text(report)} "
        f"({each.rate:.1%}, best with {each.probability:.1%})".replace("%", " %")
        for each in report.evidence
    )
    return f"A/B test {ab_test_state_text(report)} {results}."


def metric_text(report: AbTestReport) -> str:
    """Return what the results count. If a user chooses the winner, they count clicks."""
    return "clicks" if report.winner_by == MANUAL else report.winner_by


def ab_test_state_text(report: AbTestReport) -> str:
    """Return the state as a clause that follows `A/B test`."""
    match report.state:
        case AbTestState.NO_WINNER:
            return "without a winner: the variants share the whole audience."
        case AbTestState.RUNNING if report.winner_by == MANUAL:
            return "running: everyone else waits until someone chooses a variant."
        case AbTestState.RUNNING:
            fallback = f"; without a clear result, {report.if_undecided} is sent" if report.if_undecided else ""
            return (
                f"running: the variant that has the most {report.winner_by} with a probability of "
                f"{report.min_confidence} % is sent to everyone else{fallback}."
            )
        case AbTestState.UNDECIDED if report.winner_by == MANUAL:
            return "undecided: everyone else waits until someone chooses a variant."
        case AbTestState.UNDECIDED:
            return (
                f"undecided: no variant is the best with a probability of {report.min_confidence} %. "
                "Everyone else waits until someone chooses a variant."
            )
        case AbTestState.DECIDED:
            return f"decided: {report.winner} is sent to everyone else ({_decided_by(report.decided_by)})."


def _decided_by(decided_by: str | None) -> str:
    if decided_by == DECIDED_BY_STATISTICS:
        return "clear results"
    if decided_by == DECIDED_BY_SETTING:
        return "chosen by the campaign's setting, because the results are not clear"
    return f"chosen by {decided_by}"
