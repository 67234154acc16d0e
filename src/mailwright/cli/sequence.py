"""`mailwright sequence`: commands that combine actions, or that read and write files. The others are derived."""

from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from mailwright.actions.declaration import DeclaredAction
from mailwright.actions.sequences import (
    edit,
    enrolments,
    export,
    list_ready_made,
    list_sequences,
    noun,
    ready_sequences,
    show,
)
from mailwright.cli.derived import make_group, perform, print_result
from mailwright.cli.json_input import parse_json
from mailwright.cli.options import Json, Limit, Tenant
from mailwright.cli.output import print_json
from mailwright.outbox import tenants

app = make_group(noun)

Reference = Annotated[str, typer.Argument(metavar="SEQUENCE", help="The ID or the name.", show_default=False)]


@app.command("list")
def list_command(
    *,
    ready: Annotated[bool, typer.Option("--ready", help="List the ready-made sequences instead.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """List a tenant's sequences, newest first."""
    action = noun.find(list_ready_made if ready else list_sequences)
    found = ready_sequences() if ready else perform(action, {}, path={}, tenant=tenant)
    print_result(action, found, {}, as_json=as_json)


@app.command("show")
def show_command(
    reference: Reference, tenant: Tenant = tenants.DEFAULT, limit: Limit = 20, as_json: Json = False
) -> None:
    """Show a sequence, how many people are at each step, and who entered last."""
    shown, listed = noun.find(show), noun.find(enrolments)
    found = _perform(shown, reference, tenant)
    people = _perform(listed, reference, tenant, limit=limit)
    if as_json:
        print_json({**found.to_dict(), "enrolments": people.to_dict()["enrolments"]})
        return
    print_result(shown, found, {}, as_json=False)
    print_result(listed, people, {}, as_json=False)


@app.command("export")
def export_command(
    reference: Reference,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write.", show_default="standard output")
    ] = None,
    with_templates: Annotated[
        bool, typer.Option("--with-templates", help="Write the newest versions of its templates into the file too.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Write the draft to a file for `sequence create` and `sequence edit`.

    The file refers to lists and segments by their keys. It does not contain them.
    """
    content = _perform(noun.find(export), reference, tenant, withTemplates=with_templates)
    if output is None:
        print_json(content)
    else:
        output.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


@app.command("edit")
def edit_command(
    reference: Reference,
    document: Annotated[
        typer.FileText,
        typer.Argument(
            metavar="FILE", help="The document as JSON; - reads stdin.", encoding="utf-8", show_default=False
        ),
    ],
    *,
    revision: Annotated[
        int | None, typer.Option(min=1, help="Refuse if the draft has another revision.", show_default=False)
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace existing templates that differ from the file with new versions.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Replace the draft. People in the sequence are not affected until it is published.

    Templates that the file contains are created if they are missing.
    """
    given = parse_json(document.read(), "FILE")
    action, revision = noun.find(edit), revision or _perform(noun.find(show), reference, tenant).revision
    changed = _perform(action, reference, tenant, document=given, revision=revision, replaceTemplates=replace)
    print_result(action, changed, {}, as_json=as_json)


def _perform(action: DeclaredAction, reference: str, tenant: str, **values: Any) -> Any:
    return perform(action, values, path={"sequence_id": reference}, tenant=tenant)
