"""Commands of the actions: their options, and what they print.

A command runs its action on this installation, or with `--server` on another one, over HTTP.
"""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum
from functools import partial, wraps
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from rich.text import Text

from mailwright.access.api_keys import Caller, platform_caller
from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    Argument,
    Aside,
    Badge,
    Cell,
    DeclaredAction,
    Details,
    FromFile,
    Moment,
    Noun,
    Option,
    ResultFile,
    Table,
    TableOf,
    TwoLines,
    Upload,
    camel_case,
    one_part,
)
from mailwright.actions.inputs import find_annotation, help_of, plain_type, read_input
from mailwright.cli import remote
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.json_input import json_object, parse_json
from mailwright.cli.opening import Installation, find_tenant, run, show_zone_of
from mailwright.cli.options import (
    Csv,
    CsvFileTarget,
    CsvTarget,
    Json,
    Tenant,
    TenantOrAll,
    Yes,
    command,
    confirm,
    group,
)
from mailwright.cli.output import aside, clock_time, display, out, print_json, print_rows, two_lines, write_parts
from mailwright.domain.clock import to_instant
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.base import ResponseModel
from mailwright.schemas.paging import MAX_PAGE, Page
from mailwright.sources.api.validation import parse

Run = TypeVar("Run", bound=Callable[..., None])

_MAX_ROWS: Final = 100_000
_PART_BYTES: Final = 256 * 1024
_TONES: Final = {
    "good": ("✓", "green"),
    "waiting": ("○", "cyan"),
    "warning": ("↻", "yellow"),
    "bad": ("✗", "red"),
    "off": ("–", "dim"),
    "unknown": ("?", "yellow"),
}


def make_group(noun: Noun) -> typer.Typer:
    """Return the commands of a noun. A module of this package can add special ones."""
    if all(action.command in ("", None) for action in noun.actions):
        app = command()
    else:
        app = group(noun.summary)
        app.callback()(_has_subcommands)
    groups = {name: group(help_) for name, help_ in noun.groups.items()}
    for name, part in groups.items():
        app.add_typer(part, name=name)
    for action in noun.actions:
        if action.command is not None:
            *outer, name = action.command.split(" ")
            (groups[outer[0]] if outer else app).command(name or None)(make_command(action))
    return app


def _has_subcommands() -> None:
    """Keep the name of a single subcommand. Without a callback, typer would leave it out."""


def make_command(action: DeclaredAction) -> Callable[..., None]:
    """Return the function of a command. Typer reads its arguments and options from its signature."""
    fields = action.fields

    def run_command(**given: Any) -> None:
        as_json = given.pop("as_json", False)
        tenant = tenants.DEFAULT if "tenant" in fields else given.pop("tenant", tenants.DEFAULT)
        if action.question is not None:
            confirm(action.question.format_map(given), yes=given.pop("yes"))
        path = {name: given.pop(name) for name in action.parameters}
        chosen = {name: given.pop(name) for name in action.noun.local_settings}
        target, wants_csv = given.pop("target", None), given.pop("as_csv", False)
        if (csv := action if action.media_types else action.csv if wants_csv else None) is not None:
            perform(csv, _values(csv, given), path=path, tenant=tenant, target=target)
            return
        if target is not None:
            raise typer.BadParameter("needs --csv", param_hint="FILE")
        values = {
            **_written(action, given.pop("file", None), partial(perform, path=path, tenant=tenant)),
            **_values(action, given),
        }
        result = perform(action, values, path=path, tenant=tenant, upload=given.pop("upload", None), settings=chosen)
        print_result(action, result, {"tenant": tenant, **path, **given}, as_json=as_json)

    parameters = [_path_parameter(action.noun, name, kind) for name, kind in action.parameters.items()]
    if action.file_body is not None:
        argument = typer.Argument(
            metavar="FILE", exists=True, dir_okay=False, help=action.file_body.help, show_default=False
        )
        parameters.append(_parameter("upload", Annotated[Path, argument]))
    if action.media_types:
        parameters.append(_parameter("target", CsvFileTarget, default=None))
    if action.csv is not None:
        parameters += [_parameter("target", CsvTarget, default=None), _parameter("as_csv", Csv, default=False)]
    parameters += [
        _field_parameter(action, name, field)
        for name, field in fields.items()
        if not (name == "cursor" and _is_paged(action)) and (action.file is None or find_annotation(field, Option))
    ]
    if action.file is not None:
        parameters.append(_parameter("file", _file(action.file), default=None))
    if action.question is not None:
        parameters.append(_parameter("yes", Yes, default=False))
    for name in action.noun.local_settings:
        parameters.append(_parameter(name, Annotated[str | None, local_option(action.noun, name)], default=None))
    if not (action.finds_tenant or action.is_platform):
        whose, default = (TenantOrAll, None) if action.spans_tenants else (Tenant, tenants.DEFAULT)
        parameters.append(_parameter("tenant", whose, default=default))
    if not action.media_types:
        parameters.append(_parameter("as_json", Json, default=False))
    run_command.__name__, run_command.__doc__ = action.name, action.help or action.description
    run_command.__annotations__ = {each.name: each.annotation for each in parameters}
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run_command


def takes_fields_of(action: DeclaredAction, *, without: Sequence[str] = ()) -> Callable[[Run], Run]:
    """Give a command that is written by hand the arguments and options of an action, as its argument `values`."""

    def add(run: Run) -> Run:
        own = [each for each in inspect.signature(run).parameters.values() if each.name != "values"]
        fields = {name: field for name, field in action.fields.items() if name not in without}

        @wraps(run)
        def run_command(**given: Any) -> None:
            chosen = {each.name: given.pop(each.name) for each in own}
            run(**chosen, values=_values(action, given))

        options = [_field_parameter(action, name, field) for name, field in fields.items()]
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
        run_command.__signature__ = inspect.Signature([parameters[0], *options, *parameters[1:]])  # type: ignore[attr-defined]
        return cast("Run", run_command)

    return add


def perform(
    action: DeclaredAction,
    values: dict[str, Any],
    *,
    path: Mapping[str, str],
    tenant: str | None = tenants.DEFAULT,
    creates: bool = False,
    upload: Path | None = None,
    target: Path | None = None,
    settings: Mapping[str, str | None] = MappingProxyType({}),
) -> Any:
    """Run the action on this installation, or with `--server` on another one. `values` has the names of the API.

    A file is written to `target`, or without `target` to stdout. `settings` are the options that replace settings.
    """
    chosen = {name: value for name, value in settings.items() if value is not None}
    if remote.server() is not None:
        for name in chosen:
            raise InvalidInput("has no effect with --server: the server has its own settings.", field=f"--{name}")
        call = partial(_call, action, path=path, tenant=tenant, upload=upload, target=target)
        return _read_pages(action, call, values)
    work = partial(
        _run,
        action,
        path=path,
        tenant=tenant,
        creates=creates or action.status == HTTPStatus.CREATED,
        upload=upload,
        target=target,
        settings={action.noun.local_settings[name].setting: value for name, value in chosen.items()},
    )
    return _read_pages(action, work, values)


def console_context(at: Installation, **more: Any) -> Context:
    """Return the context of an action that the console runs on the whole installation."""
    return Context(at.settings, at.clock, at.database, platform_caller(CONSOLE), "cli", **more)


def _run(
    action: DeclaredAction,
    values: dict[str, Any],
    *,
    path: Mapping[str, str],
    tenant: str | None,
    creates: bool,
    upload: Path | None,
    target: Path | None,
    settings: Mapping[str, str],
) -> Any:
    """Run the action on this installation. If `tenant` is None, on all tenants."""

    async def work(at: Installation) -> Any:
        at = replace(at, settings=at.settings.model_copy(update=settings))
        context = console_context(at, sees_all_tenants=action.finds_tenant or tenant is None, path=path)
        if action.finds_tenant and action.noun.find_owner is not None:
            owner_id = await action.noun.find_owner(context)
            await show_zone_of(at, owner_id)
            context = replace(context, caller=Caller(owner_id, tenant or "", actor=CONSOLE), sees_all_tenants=False)
        elif not action.is_platform and tenant is not None:
            owner = await find_tenant(at, tenant)
            context = replace(context, caller=Caller(owner.id, owner.name, actor=CONSOLE))
        context = replace(context, zone=display.zone)
        body, query = _split(action, values)
        file = [] if upload is None else [Upload(upload.name, _read_parts(upload))]
        given: list[Any] = [*path.values(), *file, *await read_input(action, context, body)]
        if action.query is not None:
            given.append(parse(action.query, query))
        result = await action.run(context, *given)
        return await write_parts(result.parts, target) if isinstance(result, ResultFile) else result

    return run(work, creates=creates)


def _call(
    action: DeclaredAction,
    values: dict[str, Any],
    *,
    path: Mapping[str, str],
    tenant: str | None,
    upload: Path | None,
    target: Path | None,
) -> Any:
    """Run the action on another server. Its API key decides the tenant."""
    if tenant not in (None, tenants.DEFAULT):
        raise InvalidInput("has no effect with --server: the API key belongs to a tenant.", field="--tenant")
    given, query = _split(action, values)
    body = {"body": given} if action.has_body else {}
    query = query if action.has_body else {**given, **query}
    content = remote.request(action.method, action.url(path), query=_query(query), file=upload, **body)
    if action.media_types:
        return asyncio.run(write_parts(one_part(content), target))
    if action.result is None:
        return json.loads(content) if content else None
    try:
        return action.result.model_validate_json(content, extra="ignore")  # A newer server may add fields.
    except ValidationError as error:
        raise remote.ServerUnreachable("The server answers like another version of Mailwright.") from error


async def _read_parts(file: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(file.open, "rb") as opened:
        while part := await asyncio.to_thread(opened.read, _PART_BYTES):
            yield part


def _split(action: DeclaredAction, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the input, then those of the query parameters."""
    names = set() if action.query is None else _names(action.query)
    query = {name: value for name, value in values.items() if name in names}
    return {name: value for name, value in values.items() if name not in query}, query


def _query(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}


def _read_pages(action: DeclaredAction, call: Callable[[dict[str, Any]], Any], values: dict[str, Any]) -> Any:
    """Call the action. If its result is a page and --limit needs more, read further pages."""
    if not _is_paged(action) or not isinstance(action.shown, Table):
        return call(values)
    wanted, rows = values.get("limit", MAX_PAGE), action.shown.rows
    result = call({**values, "limit": min(wanted, MAX_PAGE)})
    found = getattr(result, rows)
    while result.next_cursor is not None and len(found) < wanted:
        result = call({**values, "limit": min(wanted - len(found), MAX_PAGE), "cursor": result.next_cursor})
        found += getattr(result, rows)
    setattr(result, rows, found)
    return result


def _written(action: DeclaredAction, file: typer.FileText | None, call: Callable[..., Any]) -> dict[str, Any]:
    """Return the input in the file. A PUT keeps the present values of fields that are not in the file.

    The file can be the output of a command, so fields that only the result has are ignored.
    """
    if action.file is None or action.input is None or action.result is None:
        return {}
    written = {} if file is None else json_object(file.read(), "file", example=f"{action.noun.command} show --json")
    if action.method == "PUT":
        show = next(each for each in action.noun.actions if (each.method, each.path) == ("GET", action.path))
        written = {**call(show, {}).to_dict(), **written}
    return {name: value for name, value in written.items() if name not in _names(action.result) - _names(action.input)}


def _names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


# Arguments and options.


def _file(help_: str) -> Any:
    shown = typer.Option("--file", metavar="FILE", help=help_, encoding="utf-8", show_default=False)
    return Annotated[typer.FileText | None, shown]


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _path_parameter(noun: Noun, name: str, annotation: Any) -> inspect.Parameter:
    metavar, help_ = noun.parameters[name]
    kind, _ = plain_type(annotation)
    return _parameter(name, Annotated[kind, typer.Argument(metavar=metavar, help=help_, show_default=False)])


def local_option(noun: Noun, name: str) -> Any:
    """Return the option that replaces a setting of this installation."""
    option = noun.local_settings[name]
    return typer.Option(f"--{name}", metavar=option.metavar, help=option.help, show_default=option.default or False)


def _field_parameter(action: DeclaredAction, name: str, field: FieldInfo) -> inspect.Parameter:
    """Return the argument or option of an input field."""
    default = action.command_defaults.get(name, None if action.file is not None else field.get_default())
    kind, is_many = (typer.FileText, False) if find_annotation(field, FromFile) else _terminal_type(field.annotation)
    help_ = help_of(field)
    encoding: dict[str, Any] = {"encoding": "utf-8"} if find_annotation(field, FromFile) else {}
    if metavar := find_annotation(field, Argument):
        shown = typer.Argument(metavar=metavar.metavar, help=help_, show_default=False, **encoding)
        kind = str if metavar.null else list[kind] if is_many else kind  # type: ignore[valid-type]
        return _parameter(name, Annotated[kind, shown], inspect.Parameter.empty if field.is_required() else default)
    bounds = {each.__class__: each for each in field.metadata}
    limits = {"min": bounds[Ge].ge, "max": bounds[Le].le} if Ge in bounds and Le in bounds else {}
    if name == "limit" and _is_paged(action):
        limits["max"] = _MAX_ROWS
    option = find_annotation(field, Option) or Option()
    shown_default = option.default or (default not in (None, "", ()) and not field.is_required())
    if option.metavar:
        kind, limits = (kind if encoding else str), {"metavar": option.metavar}
    shown = typer.Option(
        _spelling(name, field), help=help_, show_default=shown_default, case_sensitive=False, **limits, **encoding
    )
    if field.is_required() and action.file is None and name not in action.command_defaults:  # Or the file has it.
        default = inspect.Parameter.empty
    elif is_many:
        kind, default = list[kind] | None, None  # type: ignore[valid-type]
    elif default is None:
        kind = kind | None
    return _parameter(name, Annotated[kind, shown], default)


def _spelling(name: str, field: FieldInfo) -> str:
    """Return the argument or option of a field, as users write it."""
    if argument := find_annotation(field, Argument):
        return str(argument.metavar)
    return (find_annotation(field, Option) or Option()).name or f"--{name.replace('_', '-')}"


def _is_paged(action: DeclaredAction) -> bool:
    """Whether the result is a page of a list. A command reads as many pages as its --limit needs."""
    return action.input is not None and issubclass(action.input, Page)


def _terminal_type(annotation: Any) -> tuple[Any, bool]:
    """Return the type that the terminal accepts for a field, and whether it can be repeated.

    Texts are checked by the input model, so that commands and API report the same errors. JSON is entered as text.
    """
    kind, is_many = plain_type(annotation)
    if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, bool | int | Enum)):
        return kind, is_many
    return str, is_many


def _values(action: DeclaredAction, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the input by their names in the API, without options that were not given."""
    fields = action.fields
    named = {name: value for name, value in given.items() if name in fields and value is not None}
    if action.method == "PATCH" and all(
        named.get(name, field.default) == field.default for name, field in fields.items()
    ):
        names = ", ".join(_spelling(name, field).partition("/")[0] for name, field in fields.items())
        raise typer.BadParameter(f"give at least one of {names}")
    return {fields[name].alias or name: _value(name, fields[name], value) for name, value in named.items()}


def _value(name: str, field: FieldInfo, value: Any) -> Any:
    if find_annotation(field, FromFile):
        text, name = value.read(), _spelling(name, field).strip("[]")
        return parse_json(text, name) if _is_json(field, text) else text
    if _is_json(field, value):
        return parse_json(value, name.upper())
    return (find_annotation(field, Argument) or find_annotation(field, Option) or Option()).value(value)


def _is_json(field: FieldInfo, value: Any) -> bool:
    return isinstance(value, str) and "dict[" in str(field.annotation)


# Output.


def print_result(action: DeclaredAction, result: Any, given: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the result of an action, and end with the exit code 1 if it is negative."""
    if as_json or isinstance(result, dict):
        print_json(_rows(action, result))
    else:
        _print(action, result, given)
    if action.is_negative(result):
        raise typer.Exit(NEGATIVE)


def _rows(action: DeclaredAction, result: Any) -> Any:
    """Return the JSON of a result. A list is printed as such, without the object around it."""
    content = result.to_dict() if isinstance(result, ResponseModel) else result
    if content is not None and isinstance(action.shown, Table):
        return content[camel_case(action.shown.rows)]
    return content


def _print(action: DeclaredAction, result: Any, given: Mapping[str, Any]) -> None:
    match action.shown:
        case str() as sentence:
            fields = {} if result is None else dict(result)
            out.print(sentence.format_map({**given, **fields}), markup=False, soft_wrap=True)
        case Table() as table:
            _print_table(table, result, given)
        case Details() as details:
            print_lines([details], result)
        case make_lines:
            print_lines(make_lines(result, given), result, given)


def print_lines(lines: Iterable[Any], result: Any, given: Mapping[str, Any] = MappingProxyType({})) -> None:
    for line in lines:
        match line:
            case Table():
                _print_table(line, result, given)
            case TableOf(table, of):
                _print_table(table, of, given)
            case Details(fields):
                rows = ((title, _cell(cell, result)) for title, cell in fields.items())
                print_rows(("", ""), (row for row in rows if row[1] is not None), nothing="")
            case Aside(text, tone):
                style = None if tone is None else _TONES[tone][1]
                aside.print(shown_value(text), style=style, markup=False, soft_wrap=True)
            case _:
                out.print(shown_value(line), markup=False, soft_wrap=True)


def _print_table(table: Table, result: Any, given: Mapping[str, Any]) -> None:
    rows = ([_cell(column, row) for column in table.columns.values()] for row in getattr(result, table.rows))
    print_rows(tuple(table.columns), rows, nothing=table.nothing.format_map(given))
    if table.then is not None:
        print_lines(table.then(result, given), result, given)


def _cell(cell: Cell, row: Any) -> Any:
    return shown_value(getattr(row, cell) if isinstance(cell, str) else cell(row))


def shown_value(value: Any) -> Any:
    match value:
        case bool():
            return "yes" if value else "no"
        case Moment(iso, names_zone):
            text = clock_time(None if iso is None else to_instant(datetime.fromisoformat(iso)))
            return f"{text} {display.zone}" if names_zone else text
        case Badge(word, tone, detail, shape):
            usual, colour = _TONES[tone]
            return Text(f"{shape or usual} {word}{f': {detail}' if detail else ''}", style=colour)
        case TwoLines(first, second):
            return two_lines(shown_value(first), str(shown_value(second)))
        case tuple():
            return Text.assemble(*(part if isinstance(part, Text) else str(part) for part in map(shown_value, value)))
    return value
