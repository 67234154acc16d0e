"""`mailwright check`: verify the installation before it sends."""

import asyncio
from typing import Final

import typer
from rich.text import Text

from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import settings_for_command
from mailwright.cli.options import Json, command
from mailwright.cli.output import aside, out, print_json, table
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.findings import Finding, TxtRecord, Verdict, problem
from mailwright.schemas.findings import check_response

app = command()

SHAPES: Final = {
    Verdict.OK: Text("✓ ok", style="green"),
    Verdict.WARNING: Text("! warning", style="yellow"),
    Verdict.PROBLEM: Text("✗ problem", style="red"),
}


@app.command()
def check(as_json: Json = False) -> None:
    """Check settings, database, workers, Valkey, providers, the sender's SPF, DKIM and DMARC, and mailouts.

    Sends nothing. Exit code 1 if there is a problem; warnings do not count.
    """
    with aside.status("Checking …"):
        findings = asyncio.run(_findings())
    is_ok = all(finding.verdict is not Verdict.PROBLEM for finding in findings)
    if as_json:
        print_json(check_response(findings, is_ok=is_ok).to_dict())
    else:
        print_findings(findings)
    if not is_ok:
        raise typer.Exit(NEGATIVE)


async def _findings() -> list[Finding]:
    from mailwright.checks.installation import check as check_installation  # noqa: PLC0415 - loads all of Mailwright

    try:
        settings = settings_for_command()
    except ConfigurationInvalid as error:
        advice = "set it in the environment or in mailwright.toml"
        return [problem("settings", message, advice) for message in error.problems]
    return [finding async for finding in check_installation(settings)]


def print_findings(findings: list[Finding]) -> None:
    made = table("Check!", "Result!", "Details")
    for finding in findings:
        found = Text(finding.summary)
        if finding.advice:
            found.append(f"\n→ {finding.advice}", style="italic")
        made.add_row(finding.name, SHAPES[finding.verdict], found)
    out.print(made)
    _print_records([finding.publish for finding in findings if finding.publish is not None])


def _print_records(records: list[TxtRecord]) -> None:
    """Print each record on one line, ready to copy."""
    if records:
        out.print("Publish these DNS records:")
    for record in records:
        out.print(Text(f'{record.name} TXT "{record.value}"'), soft_wrap=True)
