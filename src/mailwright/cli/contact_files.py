"""`mailwright contact import`."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mailwright.actions import load_noun
from mailwright.actions.imports import (
    ImportColumnResponse,
    ImportPreviewResponse,
    ImportQuery,
    ImportRemarkResponse,
    ImportResponse,
    begin,
    import_preview_response,
    import_response,
)
from mailwright.app.system_emails import make_double_opt_in
from mailwright.audience import lists
from mailwright.audience.importing.columns import SKIPPED
from mailwright.audience.importing.file_format import DELIMITER_NAMES
from mailwright.audience.importing.imports import Import, Imports
from mailwright.audience.importing.plan import ImportOptions, ImportPreview
from mailwright.audience.importing.report import ReportFile
from mailwright.audience.importing.spreadsheets import as_csv
from mailwright.audience.importing.value_formats import LABELS, ColumnFormat
from mailwright.cli import remote
from mailwright.cli.contact_uploads import add_list, has_list, import_upload, preview_upload
from mailwright.cli.derived import takes_fields_of
from mailwright.cli.import_progress import import_progress
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import aside, out, print_json, print_rows
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.sources.api.validation import parse
from mailwright.texts.subscription_answers import answers_text

INTERRUPTED = 130  # The exit code that shells use after Ctrl-C.

# The settings of a list that an import creates.
_NEW_LIST: Final = "single opt-in, shown on public pages"


@takes_fields_of(load_noun("contact").find(begin), without=("file_name",))
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, show_default=False)],
    *,
    values: Any,
    report: Annotated[
        Path | None,
        typer.Option(
            help="The report file, with one line per row.", show_default="FILE with the extension .report.csv"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show how the first rows would be imported, and store nothing.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Import contacts from a CSV or .xlsx file. Run it again to resume. Unsubscribed contacts stay unsubscribed.

    A missing list is created, with single opt-in and shown on public pages.
    """
    values["fileName"] = file.name
    purpose = parse(ImportQuery, values).options(CONSOLE)
    is_remote = remote.server() is not None
    if dry_run:
        preview = _preview_on_server if is_remote else _preview_here
        _show_preview(preview(tenant, file, purpose, values), as_json=as_json)
        return
    report_file = report or file.with_suffix(".report.csv")
    try:
        done = (_import_on_server if is_remote else _import_here)(tenant, file, purpose, values, report_file)
    except KeyboardInterrupt:
        ends = "If the file was uploaded, the server goes on." if is_remote else "Run the same command again to resume."
        aside.print(f"Interrupted. {ends}")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json({**done.to_dict(), "report": str(report_file)})
        return
    out.print(f"{_counts(done)} Report: {report_file}", markup=False, soft_wrap=True)


def _preview_here(tenant: str, file: Path, purpose: ImportOptions, _values: Any) -> ImportPreviewResponse:
    return import_preview_response(run(lambda at: _preview(at, tenant, file, purpose)))


def _preview_on_server(
    tenant: str, file: Path, purpose: ImportOptions, values: dict[str, Any]
) -> ImportPreviewResponse:
    if purpose.list_key is not None and not has_list(purpose.list_key, tenant=tenant):
        _refuse_to_ask(purpose)
        aside.print(f"The list {purpose.list_key} would be created: {_NEW_LIST}.")
        values = _without_list(values)
    return preview_upload(file, values, tenant=tenant)


def _import_here(tenant: str, file: Path, purpose: ImportOptions, _values: Any, report: Path) -> ImportResponse:
    return import_response(run(lambda at: _import(at, tenant, file, purpose, report), creates=True))


def _import_on_server(
    tenant: str, file: Path, purpose: ImportOptions, values: dict[str, Any], report: Path
) -> ImportResponse:
    if purpose.list_key is not None and not has_list(purpose.list_key, tenant=tenant):
        _refuse_to_ask(purpose)
        preview_upload(file, _without_list(values), tenant=tenant)
        add_list(purpose.list_key, tenant=tenant)
        _report_new_list(purpose.list_key)
    return import_upload(file, values, report, tenant=tenant)


def _refuse_to_ask(purpose: ImportOptions) -> None:
    if purpose.asks:
        raise InvalidInput(
            "The list {list_key} does not exist, and a new one does not use double opt-in. Create it first: "
            "`mailwright list create {list_key} --confirm`.",
            field="ask",
            list_key=purpose.list_key,
        )


def _without_list(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in ("listKey", "ask")}


def _report_new_list(list_key: str) -> None:
    aside.print(f"Created the list {list_key}: {_NEW_LIST}. Change it with `mailwright list edit`.")


async def _preview(at: Installation, tenant: str, file: Path, purpose: ImportOptions) -> ImportPreview:
    owner = await find_tenant(at, tenant)
    if purpose.list_key is not None and not await _is_known(at, owner.id, purpose.list_key):
        _refuse_to_ask(purpose)
        aside.print(f"The list {purpose.list_key} would be created: {_NEW_LIST}.")
        purpose = replace(purpose, list_key=None)
    largest = at.settings.import_bytes
    with as_csv(file, largest=largest) as readable:
        purpose = replace(purpose, other_sheets=readable.other_sheets)
        return await Imports(at.database, at.clock, largest=largest).preview(owner.id, readable.path, purpose)


async def _import(at: Installation, tenant: str, file: Path, purpose: ImportOptions, report: Path) -> Import:
    owner = await find_tenant(at, tenant)
    double_opt_in = partial(make_double_opt_in, at.settings, at.database, at.clock)
    imports = Imports(at.database, at.clock, largest=at.settings.import_bytes, double_opt_in=double_opt_in)
    with as_csv(file, largest=at.settings.import_bytes) as readable:
        purpose = replace(purpose, other_sheets=readable.other_sheets)
        await _create_list(at, owner.id, purpose, imports, readable.path)
        begun = await imports.begin(owner.id, readable.path, purpose, file_name=file.name, actor=CONSOLE)
        return await _run(imports, begun, readable.path, report)


async def _create_list(at: Installation, tenant_id: int, purpose: ImportOptions, imports: Imports, file: Path) -> None:
    """Create the list of an import if it does not exist, unless the file would be refused."""
    if purpose.list_key is None or await _is_known(at, tenant_id, purpose.list_key):
        return
    _refuse_to_ask(purpose)
    await imports.preview(tenant_id, file, replace(purpose, list_key=None))
    await lists.create(at.database, at.clock, tenant_id, purpose.list_key, is_public=True, requires_confirmation=False)
    _report_new_list(purpose.list_key)


async def _run(imports: Imports, begun: Import, file: Path, report: Path) -> Import:
    done = begun
    if begun.records:
        aside.print(f"Resuming after row {begun.records}.")
    for warning in begun.plan.warnings:
        aside.print(warning, markup=False)
    with import_progress(begun.size_bytes, begun.read_bytes, begun.records) as show:
        async for done in imports.run(begun, file, ReportFile(report)):
            show(done.read_bytes, done.records)
    return done


async def _is_known(at: Installation, tenant_id: int, list_key: str) -> bool:
    async with at.database.read() as tx:
        return list_key in await lists.existing_keys(tx, tenant_id, [list_key])


def _counts(done: ImportResponse) -> str:
    counts = f"{done.added} added, {done.changed} changed, {done.unchanged} unchanged, {done.refused} refused"
    counts = f"{counts}, {done.repeated} repeated." if done.repeated else f"{counts}."
    return f"{counts} {done.answers_text}" if done.answers_text else counts


def _show_preview(seen: ImportPreviewResponse, *, as_json: bool) -> None:
    if as_json:
        print_json(seen.to_dict())
        return
    for warning in seen.warnings:
        aside.print(warning, markup=False)
    aside.print(f"Read as {seen.encoding}, separated by {DELIMITER_NAMES[seen.delimiter]}.")
    print_rows(
        ("Column", "Imported as"),
        ((column.title, _imported_as(column)) for column in seen.columns),
        nothing="No columns.",
    )
    rows = seen.to_dict()
    print_rows(("Line#", "Address", "Name", "Other fields"), map(_preview_row, rows["rows"]), nothing="No rows.")
    if seen.total_rows > len(seen.rows):
        aside.print(f"These are the first {len(seen.rows)} of {seen.total_rows} rows.")
    if seen.refused:
        of = f"{seen.checked}" if seen.checked == seen.total_rows else f"the first {seen.checked}"
        out.print(f"{seen.refused} of {of} rows will be refused:", markup=False)
        for row in rows["firstRefused"]:
            text = " ".join(filter(None, (row["email"], row["refused"])))
            out.print(f"  line {row['line']}: {text}", markup=False, soft_wrap=True)
    if seen.answers:
        out.print(f"{answers_text(seen.answers)}.", markup=False, soft_wrap=True)
        for each in seen.first_unreadable:
            _print_remark(each)
    if seen.blocked:
        out.print(f"{seen.blocked} who agreed are not subscribed:", markup=False)
        for each in seen.first_blocked:
            _print_remark(each)


def _print_remark(each: ImportRemarkResponse) -> None:
    out.print(f"  line {each.line}: {each.email} {each.remark}", markup=False, soft_wrap=True)


def _imported_as(column: ImportColumnResponse) -> str:
    if column.target == SKIPPED:
        return "ignored"
    return f"{column.target}: {LABELS[ColumnFormat(column.format)]}" if column.format else column.target


def _preview_row(row: dict[str, Any]) -> tuple[Any, ...]:
    person = row["person"]
    if person is None:
        return row["line"], row["email"], "", f"refused: {row['refused']}"
    more = {
        "newsletter": person["answer"],
        "locale": person["locale"],
        "timezone": person["timezone"],
        "tags": ", ".join(person["tags"]),
        **person["attributes"],
    }
    return (
        row["line"],
        row["email"],
        person["name"],
        "; ".join(f"{key}: {value}" for key, value in more.items() if value),
    )
