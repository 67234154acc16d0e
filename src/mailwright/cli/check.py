"""`mailwright check`: what works and what does not, before a mail finds out."""

import asyncio
from typing import Final

import typer
from rich.text import Text

from mailwright.checks.findings import Finding, TxtRecord, Verdict, problem
from mailwright.checks.installation import check as look
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import settings_for_command
from mailwright.cli.options import Json, command
from mailwright.cli.output import aside, out, print_json, table
from mailwright.domain.errors import ConfigurationInvalid

app = command()

SHAPES: Final = {
    Verdict.OK: Text("✓ ok", style="green"),
    Verdict.WARNING: Text("! warning", style="yellow"),
    Verdict.PROBLEM: Text("✗ problem", style="red"),
}


@app.command()
def check(as_json: Json = False) -> None:
    """Tell what works: settings, database, workers, Redis, provider, the sender's SPF, DKIM and DMARC, and mailouts.

    Nothing is sent. Exit 1 if there is a problem; a warning is not one.
    """
    with aside.status("Checking …"):
        findings = asyncio.run(_findings())
    is_ok = all(finding.verdict is not Verdict.PROBLEM for finding in findings)
    if as_json:
        print_json({"ok": is_ok, "findings": [finding.as_dict() for finding in findings]})
    else:
        print_findings(findings)
    if not is_ok:
        raise typer.Exit(NEGATIVE)


async def _findings() -> list[Finding]:
    try:
        settings = settings_for_command()
    except ConfigurationInvalid as error:
        advice = "set it in the environment or in mailwright.toml"
        return [problem("settings", told, advice) for told in error.problems]
    return [finding async for finding in look(settings)]


def print_findings(findings: list[Finding]) -> None:
    made = table("Part!", "Verdict!", "Found")
    for finding in findings:
        found = Text(finding.summary)
        if finding.advice:
            found.append(f"\n→ {finding.advice}", style="italic")
        made.add_row(finding.name, SHAPES[finding.verdict], found)
    out.print(made)
    _print_records([finding.publish for finding in findings if finding.publish is not None])


def _print_records(records: list[TxtRecord]) -> None:
    """Each whole and in one line, to be copied."""
    if records:
        out.print("To publish in DNS:")
    for record in records:
        out.print(Text(f'{record.name} TXT "{record.value}"'), soft_wrap=True)
