"""`mailwright contacts import` and `export`: files in, with a report of every row, and files out."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from mailwright.audience import export, lists, segments
from mailwright.audience.export import ExportSelection
from mailwright.audience.importing.imports import Import, Imports
from mailwright.audience.importing.plan import ImportOptions, ImportPreview
from mailwright.audience.importing.rows import ContactRow
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import aside, out, print_json, print_rows
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.answers import importing as import_answer
from mailwright.schemas.answers import previewing

INTERRUPTED = 130  # as shells count a command that Ctrl-C ended

File = Annotated[Path, typer.Argument(metavar="FILE.csv", exists=True, dir_okay=False, show_default=False)]
ListKey = Annotated[
    str | None, typer.Option("--list", help="The list to join; made if it is not there.", show_default=False)
]


def import_command(
    file: File,
    *,
    list_key: ListKey = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="What a column is: `E-Mail=email`, `Plan=tariff`, or `Notes=-` to leave it out.",
            show_default=False,
        ),
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="For everyone in the file.", show_default=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to tell of every row; FILE.report.csv if not given.", show_default=False)
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="As cp1251; found out if not given.", show_default=False)] = None,
    confirmed: Annotated[
        bool, typer.Option("--confirmed", help="They have confirmed elsewhere, for a list that asks for it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the first rows as they would be read.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Take people in from a file. Whoever left or bounced stays so. The same command goes on where it was cut off."""
    purpose = ImportOptions(list_key, tuple(tags or ()), _chosen(columns or []), confirmed, encoding)
    if dry_run:
        _show_preview(run(lambda at: _preview(at, tenant, file, purpose)), as_json=as_json)
        return
    told = report or file.with_suffix(".report.csv")
    try:
        done = run(lambda at: _import(at, tenant, file, purpose, told), creates=True)
    except KeyboardInterrupt:
        aside.print("Stopped between two portions. The same command goes on from there.")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({**import_answer(done), "report": str(told)})
        return
    out.print(
        f"{done.added} added, {done.changed} changed, {done.unchanged} unchanged, {done.refused} refused. "
        f"Every row is told of in {told}",
        markup=False,
        soft_wrap=True,
    )


def export_command(
    *,
    list_key: Annotated[str | None, typer.Option("--list", help="Only who is on it.", show_default=False)] = None,
    segment: Annotated[str | None, typer.Option(help="Only who is in it.", show_default=False)] = None,
    json_lines: Annotated[bool, typer.Option("--jsonl", help="JSON lines instead of CSV.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; or else standard output.", show_default=False)
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Write people out with lists, tags and attributes. An import takes the CSV back and changes nothing then."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        asked = None if segment is None else (await segments.find(at.database, owner.id, segment)).filter
        make = export.as_json_lines if json_lines else export.as_csv
        parts = make(at.database, ExportSelection(owner.id, list_key, asked), at.clock.now())
        if output is None:
            async for part in parts:
                sys.stdout.write(part)
            return
        with await asyncio.to_thread(output.open, "w", encoding="utf-8", newline="") as file:
            async for part in parts:
                file.write(part)

    run(work)


async def _preview(at: Installation, tenant: str, file: Path, purpose: ImportOptions) -> ImportPreview:
    owner = await tenants.find(at.database, tenant)
    if purpose.list_key is not None and not await _is_known(at, owner.id, purpose.list_key):
        aside.print(f"The list {purpose.list_key} would be new.")
        purpose = replace(purpose, list_key=None)
    return await Imports(at.database, at.clock, largest=at.settings.import_bytes).preview(owner.id, file, purpose)


async def _import(at: Installation, tenant: str, file: Path, purpose: ImportOptions, report: Path) -> Import:
    owner = await tenants.find(at.database, tenant)
    imports = Imports(at.database, at.clock, largest=at.settings.import_bytes)
    if purpose.list_key is not None and not await _is_known(at, owner.id, purpose.list_key):
        # Whoever brings people for a list wants the list.
        await lists.create(at.database, at.clock, owner.id, purpose.list_key)
        aside.print(f"The list {purpose.list_key} is new.")
    begun = done = await imports.begin(owner.id, file, purpose, actor=CONSOLE)
    if begun.records:
        aside.print(f"Goes on after {begun.records} rows.")
    for warning in begun.plan.file_format.warnings:
        aside.print(warning, markup=False)
    columns = (BarColumn(), DownloadColumn(), TextColumn("{task.fields[rows]} rows"), TimeRemainingColumn())
    with Progress(*columns, console=aside, transient=True) as progress:
        task = progress.add_task("", total=begun.size_bytes, completed=begun.read_bytes, rows=begun.records)
        async for done in imports.run(begun, file, report):
            progress.update(task, completed=done.read_bytes, rows=done.records)
    return done


async def _is_known(at: Installation, tenant_id: int, list_key: str) -> bool:
    async with at.database.read() as tx:
        return list_key in await lists.existing_keys(tx, tenant_id, [list_key])


def _chosen(columns: list[str]) -> dict[str, str]:
    chosen = {}
    for text in columns:
        title, sign, target = text.rpartition("=")
        if not sign or not title or not target:
            raise InvalidInput(f"{text!r} must look like E-Mail=email", field="--map")
        chosen[title] = target
    return chosen


def _show_preview(seen: ImportPreview, *, as_json: bool) -> None:
    if as_json:
        print_json(previewing(seen))
        return
    for warning in seen.plan.file_format.warnings:
        aside.print(warning, markup=False)
    print_rows(
        ("Column", "becomes"),
        ((column.title, "left out" if column.target == "-" else column.target) for column in seen.plan.columns),
        nothing="No columns.",
    )
    print_rows(
        ("Line#", "Address", "Name", "Otherwise"),
        (_preview_row(line, row) for line, row in seen.rows),
        nothing="No rows.",
    )


def _preview_row(line: int, row: ContactRow | str) -> tuple[Any, ...]:
    if isinstance(row, str):
        return line, "refused", "", row
    more = {"locale": row.locale, "timezone": row.timezone, "tags": ", ".join(row.tags), **row.attributes}
    return line, row.email, row.name, "; ".join(f"{name}: {value}" for name, value in more.items() if value)
