"""`mailwright retention`: delete old data."""

from typing import Annotated

import typer

from mailwright.app.retention import RetentionSweep, make_retention
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Yes, confirm, group
from mailwright.cli.output import aside, clock_time, out, print_json, table
from mailwright.domain.retention import RetentionCount, RetentionKind, RetentionRule
from mailwright.domain.sizes import size_text
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.retention_rules import list_rules, remove_rule, set_rule
from mailwright.schemas.retention import applied_rule_response, tenant_rule_response

app = group("Delete old data after a number of days. Nothing is deleted unless a rule is switched on.")

Tenant = Annotated[str | None, typer.Option("--tenant", help="Tenant name. Default: all tenants.", show_default=False)]
Kind = Annotated[RetentionKind, typer.Argument(help="The kind of data.", show_default=False)]


@app.command()
def show(tenant: Tenant = None, as_json: Json = False) -> None:
    """Show the rules and the amount of data that they have deleted so far."""
    rules, names = run(lambda at: _rules(at, tenant))
    if as_json:
        print_json([tenant_rule_response(rule, names[rule.tenant_id]).to_dict() for rule in rules])
        return
    if not rules:
        out.print("Retention is off: nothing is deleted. Switch it on with `mailwright retention set KIND DAYS`.")
        return
    made = table("Tenant!", "Kind!", "Days#", "Export!", "Deleted#", "Content#", "Last complete pass!")
    for rule in rules:
        last = "–" if rule.finished_at is None else clock_time(rule.finished_at)
        export = "yes" if rule.exports else "no"
        size = size_text(rule.bytes)
        made.add_row(names[rule.tenant_id], rule.kind, str(rule.days), export, f"{rule.rows:,}", size, last)
    out.print(made)


@app.command("set")
def set_command(
    kind: Kind,
    days: Annotated[str, typer.Argument(metavar="DAYS|off", help="Delete data that is older than this.")],
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant name.")] = tenants.DEFAULT,
    export: Annotated[
        bool, typer.Option("--export", help="Export rows to MAILWRIGHT_RETENTION_EXPORT before they are deleted.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Switch a rule on, change it, or switch it off. Shows first what it would delete now."""
    if days == "off":
        run(lambda at: _remove(at, tenant, kind))
        out.print(f"Retention of {kind} is off for {tenant}.")
        return
    if not days.isdigit():
        raise typer.BadParameter(f"{days!r} is not a number of days or `off`.", param_hint="DAYS")
    found = run(lambda at: _preview(at, tenant, kind, int(days), exports=export))
    out.print(f"Older than {days} days: {_text(found)} of {kind}.")
    confirm("Delete them in the background, and all later ones when they reach this age?", yes=yes)
    run(lambda at: _set(at, tenant, kind, int(days), exports=export))
    out.print(f"Retention of {kind} is on for {tenant}: {days} days.")


@app.command("run")
def run_command(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    tenant: Tenant = None,
    as_json: Json = False,
) -> None:
    """Apply the rules now instead of waiting for the background task.

    Works in small batches and pauses while workers send. It can be interrupted and continues later.
    """
    done, names, failed = run(lambda at: _count(at, tenant) if dry_run else _sweep(at, tenant))
    if as_json:
        print_json([applied_rule_response(rule, names[rule.tenant_id], count).to_dict() for rule, count in done])
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


async def _preview(at: Installation, tenant: str, kind: RetentionKind, days: int, *, exports: bool) -> RetentionCount:
    retention = make_retention(at.settings, at.database, at.clock)
    retention.check_export(exports=exports)
    return await retention.preview((await find_tenant(at, tenant)).id, kind, days)


async def _set(at: Installation, tenant: str, kind: RetentionKind, days: int, *, exports: bool) -> None:
    tenant_id = (await find_tenant(at, tenant)).id
    await set_rule(at.database, at.clock, tenant_id, kind, days=days, exports=exports, actor=CONSOLE)


async def _remove(at: Installation, tenant: str, kind: RetentionKind) -> None:
    await remove_rule(at.database, at.clock, (await find_tenant(at, tenant)).id, kind, actor=CONSOLE)


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


def _text(count: RetentionCount) -> str:
    about = "about " if count.is_estimate else ""
    return f"{about}{count.rows:,} {'row' if count.rows == 1 else 'rows'} ({size_text(count.bytes)})"
