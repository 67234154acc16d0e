"""`mailwright form`: sign-up forms of lists."""

from typing import Annotated, Any

import typer

from mailwright.audience.form_snippet import form_snippet, form_url
from mailwright.audience.forms import FormCounts, Forms, SignUpForm
from mailwright.cli.json_input import json_object
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, Yes, confirm, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.domain.clock import Instant
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.forms import FormRequest, FormResponse, form_response
from mailwright.sources.api.validation import parse

app = group("Sign-up forms: fields, consents and the HTML to embed.")

FormId = Annotated[str, typer.Argument(metavar="ID", help="The id of the form.", show_default=False)]
Definition = Annotated[
    typer.FileText | None,
    typer.Option(
        "--file", metavar="FILE", help="The form as JSON, as `form show --json` prints it; - reads stdin.",
        encoding="utf-8", show_default=False,
    ),
]  # fmt: skip
_READ_ONLY = ("formId", "url", "snippet", "version", "submitted", "confirmed", "createdAt", "updatedAt")


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List the forms of a tenant."""

    async def work(at: Installation) -> list[tuple[Instant, FormResponse]]:
        owner = await find_tenant(at, tenant)
        return [(form.updated_at, _described(at, form, counts)) for form, counts in await _forms(at).list_all(owner.id)]

    found = run(work)
    if as_json:
        print_json([response.to_dict() for _, response in found])
        return
    rows = (
        (shown.form_id, shown.name, shown.list_key, f"{shown.submitted:,}", f"{shown.confirmed:,}", clock_time(changed))
        for changed, shown in found
    )
    columns = ("ID!", "Name", "List", "Submitted#", "Confirmed#", "Changed ({zone})")
    print_rows(columns, rows, nothing="No forms. Create one with `mailwright form create`.")


@app.command()
def show(form_id: FormId, *, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show a form and the HTML that embeds it."""

    async def work(at: Installation) -> FormResponse:
        owner = await find_tenant(at, tenant)
        found = await _forms(at).find(owner.id, form_id)
        return _described(at, found, await _forms(at).count(found))

    _print(run(work), as_json=as_json)


@app.command()
def create(
    *,
    name: Annotated[str | None, typer.Option(help="The name of the form, for you.", show_default=False)] = None,
    list_key: Annotated[
        str | None, typer.Option("--list", metavar="KEY", help="The list that people subscribe to.", show_default=False)
    ] = None,
    file: Definition = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Create a form of a list. Its fields and consents come from a file."""
    wanted = _wanted({"name": name, "listKey": list_key}, file)

    async def work(at: Installation) -> FormResponse:
        owner = await find_tenant(at, tenant)
        made = await _forms(at).create(
            owner.id, name=wanted.name, list_key=wanted.list_key, content=wanted.content(), actor=CONSOLE
        )
        return _described(at, made)

    _print(run(work), as_json=as_json)


@app.command()
def edit(
    form_id: FormId,
    *,
    name: Annotated[str | None, typer.Option(help="The new name.", show_default=False)] = None,
    list_key: Annotated[
        str | None, typer.Option("--list", metavar="KEY", help="The new list.", show_default=False)
    ] = None,
    file: Definition = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Change a form. A file replaces its content."""
    given: dict[str, Any] = {"name": name, "listKey": list_key}
    written = _read(file)

    async def work(at: Installation) -> FormResponse:
        owner, store = await find_tenant(at, tenant), _forms(at)
        before = _described(at, await store.find(owner.id, form_id)).to_dict()
        wanted = _parse({**before, **written}, given)
        changed = await store.edit(
            owner.id, form_id, name=wanted.name, list_key=wanted.list_key, content=wanted.content(), actor=CONSOLE
        )
        return _described(at, changed)

    _print(run(work), as_json=as_json)


@app.command()
def delete(form_id: FormId, *, tenant: Tenant = tenants.DEFAULT, yes: Yes = False) -> None:
    """Delete a form. Embedded copies stop working. Stored consents are kept."""
    confirm(f"Delete the form {form_id}?", yes=yes)

    async def work(at: Installation) -> None:
        await _forms(at).delete((await find_tenant(at, tenant)).id, form_id, actor=CONSOLE)

    run(work)
    out.print(f"Deleted the form {form_id}.", markup=False)


def _forms(at: Installation) -> Forms:
    return Forms(at.database, at.clock)


def _wanted(given: dict[str, Any], file: typer.FileText | None) -> FormRequest:
    return _parse(_read(file), given)


def _parse(written: dict[str, Any], given: dict[str, Any]) -> FormRequest:
    fields = {name: value for name, value in written.items() if name not in _READ_ONLY}
    return parse(FormRequest, {**fields, **{name: value for name, value in given.items() if value is not None}})


def _read(file: typer.FileText | None) -> dict[str, Any]:
    return {} if file is None else json_object(file.read(), "file", example="the output of `form show --json`")


def _described(at: Installation, form: SignUpForm, counts: FormCounts | None = None) -> FormResponse:
    url = at.settings.public_url
    return form_response(form, form_url(url, form), form_snippet(url, form), counts)


def _print(form: FormResponse, *, as_json: bool) -> None:
    if as_json:
        print_json(form.to_dict())
        return
    out.print(f"{form.form_id}  {form.name} (list {form.list_key}, version {form.version})", markup=False)
    out.print(form.url, markup=False, soft_wrap=True, highlight=False)
    out.print(form.snippet, markup=False, soft_wrap=True, highlight=False)
