"""`mailwright quota`: the remaining quota of the providers."""

from typing import Annotated

import typer
from rich.text import Text

from mailwright.actions.providers import ProviderQuotaResponse
from mailwright.app.named_providers import load_named
from mailwright.app.quotas import open_quota_sync
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import ago, aside, out, print_json, table
from mailwright.domain.clock import Instant
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import variable_of
from mailwright.outbox import quotas
from mailwright.outbox.quotas import ProviderQuota
from mailwright.schemas.base import combine

app = command()


@app.command()
def quota(
    sync: Annotated[
        bool, typer.Option("--sync", help="Query the providers now instead of waiting for the next sync.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the remaining quota of the providers. Exit code 1 if --sync fails for one of them."""

    async def work(at: Installation) -> tuple[list[ProviderQuota], bool, Instant]:
        is_synced = True
        if sync:
            named = (await load_named(at.database, at.settings)).used
            sources = [(at.settings, None), *((each.settings, each.name) for each in named if each.problem is None)]
            results = [await _sync(at, settings, name) for settings, name in sources]
            # The installation's provider needs no quota if a named provider has one.
            is_synced = any(result is True for result in results) and False not in results
        return await quotas.load_quotas(at.database), is_synced, at.clock.now()

    found, is_synced, now = run(work)
    if as_json:
        print_json([combine(ProviderQuotaResponse, each, missed=each.failed_syncs).to_dict() for each in found])
    elif found:
        _print(found, now)
    else:
        out.print(f"No provider reports a quota. Of the supported ones, only {_reporting()} do.", soft_wrap=True)
    if not is_synced:
        aside.print("A provider did not report its quota. Run `mailwright check` for the reason.", soft_wrap=True)
        raise typer.Exit(NEGATIVE)


def _reporting() -> str:
    return " and ".join(
        kind.name if kind.quota_setting is None else f"{kind.name} (with {variable_of(kind.quota_setting)})"
        for kind in KINDS.values()
        if kind.has_quota
    )


async def _sync(at: Installation, settings: Settings, name: str | None) -> bool | None:
    """Return whether the quota was reported; None if there is none."""
    async with open_quota_sync(settings, at.database, at.clock, name) as quota_sync:
        return None if quota_sync is None else await quota_sync.sync()


def _print(found: list[ProviderQuota], now: Instant) -> None:
    made = table("Provider!", "Remaining#", "Sent since#", "Per second#", "Updated!", "Remarks")
    for each in found:
        remarks = Text(each.detail)
        if each.failure is not None and each.failed_at is not None:
            remarks.append(f"\nlast sync failed {ago(each.failed_at, now)}: {each.failure}", style="yellow")
        if each.rate_per_second is not None and not each.is_rate_kept:
            given_up = (
                f"\nthe rate of {each.rate_per_second}/s is no longer applied after {each.failed_syncs} failed syncs"
            )
            remarks.append(given_up, style="yellow")
        left = "no limit" if each.remaining is None else f"{each.remaining:,}"
        rate = f"{each.rate_per_second:,}" if each.rate_per_second is not None and each.is_rate_kept else "–"
        made.add_row(each.provider, left, f"{each.sent_since:,}", rate, ago(each.synced_at, now), remarks)
    out.print(made)
