"""The state of an A/B test in words, for the dashboard and the command line."""

from mailwright.domain.translation import gettext, number_text
from mailwright.sources.campaigns.ab_test import DECIDED_BY_SETTING, DECIDED_BY_STATISTICS, AbTestReport, AbTestState
from mailwright.sources.campaigns.definition import MANUAL


def ab_test_text(report: AbTestReport) -> str:
    """Return the state and the evidence: `A/B test running: … plain 1 of 10 clicks (10.0 %, best with 0.1 %), …`"""
    results = ", ".join(
        gettext(
            "{name} {engaged} of {sent} {report} ({rate}, best with {probability})",
            name=each.name,
            engaged=number_text(each.engaged),
            sent=number_text(each.sent),
            report=metric_text(report),
            rate=f"{each.rate:.1%}",
            probability=f"{each.probability:.1%}",
        ).replace("%", " %")
        for each in report.evidence
    )
    return gettext("A/B test {report} {results}.", report=ab_test_state_text(report), results=results)


def metric_text(report: AbTestReport) -> str:
    """Return what the results count: opens or clicks. If a user chooses the winner, the results count clicks."""
    return "clicks" if report.winner_by == MANUAL else report.winner_by


def ab_test_state_text(report: AbTestReport) -> str:
    """Return the state as a clause that follows `A/B test`."""
    match report.state:
        case AbTestState.NO_WINNER:
            return gettext("without a winner: the variants share the whole audience.")
        case AbTestState.RUNNING if report.winner_by == MANUAL:
            return gettext("running: everyone else waits until someone chooses a variant.")
        case AbTestState.RUNNING:
            fallback = (
                gettext("; without a clear result, {if_undecided} is sent", if_undecided=report.if_undecided)
                if report.if_undecided
                else ""
            )
            return gettext(
                "running: the variant that has the most {winner_by} with a probability of "
                "{min_confidence} % is sent to everyone else{fallback}.",
                winner_by=report.winner_by,
                min_confidence=report.min_confidence,
                fallback=fallback,
            )
        case AbTestState.UNDECIDED if report.winner_by == MANUAL:
            return gettext("undecided: everyone else waits until someone chooses a variant.")
        case AbTestState.UNDECIDED:
            return gettext(
                "undecided: no variant is the best with a probability of {min_confidence} %. Everyone "
                "else waits until someone chooses a variant.",
                min_confidence=report.min_confidence,
            )
        case AbTestState.DECIDED:
            return gettext(
                "decided: {winner} is sent to everyone else ({decided_by}).",
                winner=report.winner,
                decided_by=_decided_by(report.decided_by),
            )


def _decided_by(decided_by: str | None) -> str:
    if decided_by == DECIDED_BY_STATISTICS:
        return gettext("clear results")
    if decided_by == DECIDED_BY_SETTING:
        return gettext("chosen by the campaign's setting, because the results are not clear")
    return gettext("chosen by {decided_by}", decided_by=decided_by)
