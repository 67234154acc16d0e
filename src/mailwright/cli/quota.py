"""`mailwright quota`: what the providers still take, and how much of it was used since they said so."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from mailwright.app.quotas import open_sync
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, command
from mailwright.cli.output import ago, aside, out, print_json, table
from mailwright.domain.clock import Instant, isoformat
from mailwright.outbox import quotas
from mailwright.outbox.quotas import ProviderQuota

app = command()


@app.command()
def quota(
    sync: Annotated[bool, typer.Option("--sync", help="Ask the providers now, instead of every few minutes.")] = False,
    as_json: Json = False,
) -> None:
    """Show what the providers still take. Exit 1 if --sync was asked for and one of them did not tell."""

    async def work(at: Installation) -> tuple[list[ProviderQuota], bool, Instant]:
        has_told = True
        if sync:
            async with open_sync(at.settings, at.database, at.clock) as asking:
                has_told = asking is not None and await asking.sync()
        return await quotas.load_quotas(at.database), has_told, at.clock.now()

    found, has_told, now = run(work)
    if as_json:
        print_json([_described(each) for each in found])
    elif found:
        _print(found, now)
    else:
        out.print("No provider has told of a quota; ses and smtpbz (with SMTPBZ_API_KEY) do.")
    if not has_told:
        aside.print("A provider did not tell what it still takes; `mailwright check` says why.", soft_wrap=True)
        raise typer.Exit(NEGATIVE)


def _print(found: list[ProviderQuota], now: Instant) -> None:
    made = table("Provider!", "Left#", "Sent since#", "A second#", "Told!", "Remarks")
    for each in found:
        remarks = Text(each.detail)
        if each.failure is not None and each.failed_at is not None:
            remarks.append(f"\nnot told {ago(each.failed_at, now)}: {each.failure}", style="yellow")
        if each.rate_per_second is not None and not each.is_rate_kept:
            given_up = f"\n{each.rate_per_second} a second are not kept any more: it did not tell {each.missed} times"
            remarks.append(given_up, style="yellow")
        left = "no limit" if each.remaining is None else f"{each.remaining:,}"
        rate = f"{each.rate_per_second:,}" if each.rate_per_second is not None and each.is_rate_kept else "–"
        made.add_row(each.provider, left, f"{each.sent_since:,}", rate, ago(each.synced_at, now), remarks)
    out.print(made)


def _described(known: ProviderQuota) -> dict[str, Any]:
    words = {_camel(name): value for name, value in asdict(known).items()}
    moments = {"syncedAt": isoformat(known.synced_at), "failedAt": isoformat(known.failed_at)}
    return {**words, **moments, "isRateKept": known.is_rate_kept}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
