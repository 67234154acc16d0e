"""The state of an A/B test in words, for the dashboard and the command line."""

from mailwright.sources.campaigns.ab_test import DECIDED_BY_SETTING, DECIDED_BY_STATISTICS, AbTestReport, AbTestState


def ab_test_text(report: AbTestReport) -> str:
    """Return the state and the results: `A/B test running: … plain 1 of 10, bold 8 of 10 clicks.`"""
    results = ", ".join(f"{each.name} {each.engaged:,} of {each.sent:,}" for each in report.results)
    return f"A/B test {ab_test_state_text(report)} {results} {report.winner_by}."


def ab_test_state_text(report: AbTestReport) -> str:
    """Return the state as a clause that follows `A/B test`."""
    match report.state:
        case AbTestState.NO_WINNER:
            return "without a winner: the variants share the whole audience."
        case AbTestState.RUNNING:
            return f"running: the variant with clearly more {report.winner_by} is sent to everyone else."
        case AbTestState.UNDECIDED:
            return (
                f"undecided: the results do not differ clearly ({report.min_confidence} % confidence is required). "
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
