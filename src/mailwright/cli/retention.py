"""`mailwright retention`: `set`, which shows first what it would delete, and `run`, which works in the database.

`show` is derived from the actions.
"""

from typing import Annotated

import typer

from mailwright.actions import retention
from mailwright.actions.retention import RetentionPreviewResponse, noun, rule_response
from mailwright.app.retention import RetentionSweep, make_retention
from mailwright.cli.derived import make_group, perform
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, TenantOrAll, Yes, confirm
from mailwright.cli.output import aside, out, print_json
from mailwright.domain.retention import RetentionCount, RetentionKind, RetentionRule
from mailwright.domain.sizes import size_text
from mailwright.outbox import tenants
from mailwright.outbox.retention_rules import list_rules

app = make_group(noun)


@app.command("set")
def set_command(
    kind: Annotated[RetentionKind, typer.Argument(help="The kind of data.", show_default=False)],
    days: Annotated[str, typer.Argument(metavar="DAYS|off", help="Delete data that is older than this.")],
    tenant: Tenant = tenants.DEFAULT,
    export: Annotated[
        bool, typer.Option("--export", help="Export rows to MAILWRIGHT_RETENTION_EXPORT before they are deleted.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Switch a rule on, change it, or switch it off. Shows first what it would delete now."""
    path = {"kind": kind.value}
    if days == "off":
        perform(noun.find(retention.remove), {}, path=path, tenant=tenant)
        out.print(f"Retention of {kind} is off for {tenant}.")
        return
    if not days.isdigit():
        raise typer.BadParameter(f"{days!r} is not a number of days or `off`.", param_hint="DAYS")
    found = perform(noun.find(retention.preview), {"days": int(days)}, path=path, tenant=tenant)
    out.print(f"Older than {days} days: {_text(found)} of {kind}.")
    confirm("Delete them in the background, and all later ones when they reach this age?", yes=yes)
    perform(noun.find(retention.save), {"days": int(days), "exports": export}, path=path, tenant=tenant)
    out.print(f"Retention of {kind} is on for {tenant}: {days} days.")


@app.command("run")
def run_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    tenant: TenantOrAll = None,
    as_json: Json = False,
) -> None:
    """Apply the rules now instead of waiting for the background task.

    Works in small batches and pauses while workers send. It can be interrupted and continues later.
    """
    done, names, failed = run(lambda at: _count(at, tenant) if dry_run else _sweep(at, tenant))
    if as_json:
        print_json(
            [
                {
                    **rule_response(rule, names[rule.tenant_id]).to_dict(),
                    "affected": count.rows,
                    "affectedBytes": count.bytes,
                }
                for rule, count in done
            ]
        )
    else:
        if not done:
            out.print("No rule is switched on, so there is nothing to delete.")
        verb = "Would delete" if dry_run else "Deleted"
        for rule, count in done:
            out.print(f"{verb} {_text(count)} of {rule.kind} ({names[rule.tenant_id]}, older than {rule.days} days).")
    for rule, reason in failed:
        aside.print(f"Retention of {rule.kind} failed for {names[rule.tenant_id]}: {reason}")
    if failed:
        raise typer.Exit(1)


Rules = tuple[list[RetentionRule], dict[int, str]]
Failed = list[tuple[RetentionRule, str]]
Done = tuple[list[tuple[RetentionRule, RetentionCount]], dict[int, str], Failed]


async def _rules(at: Installation, tenant: str | None) -> Rules:
    tenant_id = None if tenant is None else (await find_tenant(at, tenant)).id
    names = {each.id: each.name for each in await tenants.list_all(at.database)}
    return await list_rules(at.database, tenant_id), names


async def _count(at: Installation, tenant: str | None) -> Done:
    rules, names = await _rules(at, tenant)
    retention = make_retention(at.settings, at.database, at.clock)
    done = []
    with aside.status("Counting …") as status:
        for rule in rules:

            def report(share: float, kind: RetentionKind = rule.kind) -> None:
                status.update(f"Counting {kind}: {share:.0%}")

            done.append((rule, await retention.count(rule.tenant_id, rule.kind, rule.days, report)))
    return done, names, []


async def _sweep(at: Installation, tenant: str | None) -> Done:
    rules, names = await _rules(at, tenant)
    totals = {(rule.tenant_id, rule.kind): RetentionCount() for rule in rules}
    sweep = RetentionSweep(at.settings, at.database, at.clock)
    with aside.status("Deleting …") as status:
        async for rule, count in sweep.run(rules):
            totals[rule.tenant_id, rule.kind] += count
            status.update(f"Deleting {rule.kind}: {totals[rule.tenant_id, rule.kind].rows:,} rows")
    return [(rule, totals[rule.tenant_id, rule.kind]) for rule in rules], names, sweep.failed


def _text(count: RetentionCount | RetentionPreviewResponse) -> str:
    about = "about " if count.is_estimate else ""
    return f"{about}{count.rows:,} {'row' if count.rows == 1 else 'rows'} ({size_text(count.bytes)})"
