"""`mailwright health`: the state of a running installation."""

from typing import Annotated

import typer
from rich.text import Text

from mailwright.checks.health import check_health
from mailwright.cli.check import SHAPES
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import clock_time, out, print_json, table
from mailwright.domain.findings import Finding, Verdict
from mailwright.schemas.findings import check_response

app = command()


@app.command()
def health(
    strict: Annotated[bool, typer.Option("--strict", help="Exit with code 1 for warnings too.")] = False,
    as_json: Json = False,
) -> None:
    """Show what is wrong now, how bad it is, since when, and what to do.

    Checks disk space, the database's size and growth, clocks, certificates, workers, the oldest due message, inbound
    events, rejections, backups, retention and holds. Reads only the database and this machine; `mailwright check` also
    tests providers, DNS and HTTPS. Exit code 1 if there is a problem.
    """

    async def work(at: Installation) -> list[Finding]:
        return await check_health(at.settings, at.database, at.clock)

    findings = run(work)
    worst = {finding.verdict for finding in findings}
    is_ok = Verdict.PROBLEM not in worst and not (strict and Verdict.WARNING in worst)
    if as_json:
        print_json(check_response(findings, is_ok=is_ok).to_dict())
    else:
        print_health(findings)
    if not is_ok:
        raise typer.Exit(NEGATIVE)


def print_health(findings: list[Finding]) -> None:
    made = table("Check!", "Result!", "Since!", "Details")
    for finding in findings:
        found = Text(finding.summary)
        if finding.advice:
            found.append(f"\n→ {finding.advice}", style="italic")
        since = "" if finding.since is None else clock_time(finding.since)
        made.add_row(finding.name, SHAPES[finding.verdict], since, found)
    out.print(made)
