"""`mailwright quarantine`: messages that may have been sent between a backup and its restore."""

import shlex
from collections.abc import Iterable
from typing import Annotated

import typer

from mailwright.app.sending import PausedSends, decide_quarantine
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Yes, confirm, group
from mailwright.cli.output import out, print_json, table, two_lines
from mailwright.domain.clock import utc_text
from mailwright.domain.states import Resolution
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.quarantine import Quarantine, QuarantineFilter, find_quarantine
from mailwright.schemas.sending_hold import QuarantineResponse
from mailwright.sources.campaigns.restored import list_running_campaigns

OnlyTenant = Annotated[str | None, typer.Option("--tenant", help="Only messages of this tenant.", show_default=False)]
OnlySource = Annotated[
    str | None, typer.Option("--source", help="Only messages of this source, for example api.", show_default=False)
]
OnlyCampaign = Annotated[
    str | None, typer.Option("--campaign", metavar="ID", help="Only messages of this campaign.", show_default=False)
]

app = group("After a restore: list, send or drop the messages that may have been sent since the backup.")


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """List the messages that may have been sent since the backup, and whether sending is on hold."""
    found, campaigns = run(_find_all)
    if as_json:
        response = {"sending_held": found.hold, "messages": found.messages, "campaigns": campaigns}
        print_json(QuarantineResponse.model_validate(response).to_dict())
        return
    if campaigns and found.hold is not None:
        names = ", ".join(campaigns)
        out.print(f"These campaigns are running or scheduled, and will be paused when sending resumes: {names}.")
    if found.hold is not None:
        out.print(f"Sending has been on hold since {utc_text(found.hold.since)}: {found.hold.detail}")
    if not found.messages:
        out.print("No waiting message can have been sent since the backup.")
        if found.hold is not None:
            out.print("Resume sending with `mailwright quarantine release`.")
        return
    shown = table("Source", "Campaign", "Possibly sent#", "Reported#")
    for each in found.messages:
        campaign = two_lines(each.campaign_name or "–", each.campaign_id or "")
        shown.add_row(two_lines(each.source, each.tenant), campaign, f"{each.messages:,}", f"{each.reported:,}")
    out.print(shown)
    out.print(
        "The messages above may already have reached their recipients. `mailwright quarantine release` sends them, "
        "`mailwright quarantine drop` closes them unsent. Messages that a provider reported are never sent again.",
        soft_wrap=True,
    )


@app.command()
def release(
    tenant: OnlyTenant = None, source: OnlySource = None, campaign: OnlyCampaign = None, yes: Yes = False
) -> None:
    """Resume sending, and send the messages that may have been sent. Some recipients may get an email twice.

    Messages that a provider has reported as sent are not sent again. Running and scheduled campaigns, and sequences,
    are paused. Resume each after you have checked its report.
    """
    found, only = run(_find), QuarantineFilter(tenant, source, campaign)
    count = found.count_undecided(only)
    confirm(_question(count, "Send them?"), yes=yes)
    resent, paused = run(lambda at: _decide(at, found, Resolution.RESEND, only))
    out.print(f"Sending resumed. Messages that will be sent: {resent:,}.")
    print_paused(paused)


@app.command()
def drop(tenant: OnlyTenant = None, source: OnlySource = None, campaign: OnlyCampaign = None, yes: Yes = False) -> None:
    """Resume sending without the messages that may have been sent. Some recipients may get no email.

    These messages are closed as unknown. Running and scheduled campaigns, and sequences, are paused. Resume each after
    you have checked its report.
    """
    found, only = run(_find), QuarantineFilter(tenant, source, campaign)
    count = found.count_undecided(only)
    confirm(_question(count, "Close them unsent?"), yes=yes)
    dropped, paused = run(lambda at: _decide(at, found, Resolution.CLOSE, only))
    out.print(f"Sending resumed. Messages closed as unknown: {dropped:,}.")
    print_paused(paused)


def _question(count: int, what: str) -> str:
    if not count:
        return "No message waits for a decision. Resume sending?"
    return f"Messages that may already have been sent: {count:,}. {what}"


def print_paused(paused: PausedSends) -> None:
    """Print the commands that resume what the release of a hold has paused."""
    _print_commands("Campaigns", (f"campaign resume {each}" for each in paused.campaigns))
    _print_commands(
        "Sequences",
        (f"sequence resume {each} --tenant {shlex.quote(tenant)}" for tenant, each in paused.sequences),
    )


def _print_commands(kind: str, commands: Iterable[str]) -> None:
    found = list(commands)
    if found:
        out.print(f"{kind} paused: {len(found):,}. Check the report of each, then resume it:")
    for each in found:
        out.print(f"  mailwright {each}", markup=False, soft_wrap=True)


async def _find_all(at: Installation) -> tuple[Quarantine, list[str]]:
    return await find_quarantine(at.database), await list_running_campaigns(at.database)


async def _find(at: Installation) -> Quarantine:
    return await find_quarantine(at.database)


async def _decide(
    at: Installation, found: Quarantine, resolution: Resolution, only: QuarantineFilter
) -> tuple[int, PausedSends]:
    return await decide_quarantine(
        at.database, at.clock, resolution, was_held=found.hold is not None, actor=CONSOLE, only=only
    )
