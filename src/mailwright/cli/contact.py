"""`mailwright contacts`: who is written to, who may not be, and why."""

from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Table

from mailwright.audience import contacts, erasure, personal_data
from mailwright.audience.contact_fields import as_text
from mailwright.audience.contacts import Contact, ContactDetails
from mailwright.audience.personal_data import ContactHistoryEntry
from mailwright.audience.status import ContactStatus, ContactStatusService
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.cli import contact_files
from mailwright.cli.message import as_read, subjects_read
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows, status_text
from mailwright.domain.clock import isoformat
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.answers import contact, portrait

app = group("People, and whether they may be written to.")

Email = Annotated[str, typer.Argument(metavar="ADDRESS", help="In any spelling.", show_default=False)]


@app.command()
def show(email: Email, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show a person's status, lists, suppressions and latest mails. The JSON has the fields of GET /v1/contacts/…"""

    async def work(at: Installation) -> ContactDetails:
        owner = await tenants.find(at.database, tenant)
        found = await contacts.load_details(at.database, owner.id, email)
        return found if as_json else replace(found, messages=tuple(await as_read(at, owner.id, found.messages)))

    found = run(work)
    if as_json:
        print_json(portrait(found))
        return
    out.print(_header(found.contact))
    print_rows(
        ("Attribute!", "Value"),
        ((name, as_text(value)) for name, value in sorted(found.contact.attributes.items())),
        nothing="No attributes.",
    )
    if found.tags:
        out.print(f"Tags: {', '.join(found.tags)}", markup=False)
    print_rows(
        ("List!", "Subscribed (UTC)!", "Left (UTC)!"),
        ((each.list_key, clock_time(each.subscribed_at), clock_time(each.unsubscribed_at)) for each in found.lists),
        nothing="On no list.",
    )
    print_rows(
        ("Not sent!", "Reason", "Source", "Since (UTC)!"),
        (
            (_scope(entry.list_key), entry.reason, entry.source, clock_time(entry.created_at))
            for entry in found.suppressions
        ),
        nothing="Not suppressed.",
    )
    print_rows(
        ("Message!", "Status!", "Subject", "Created (UTC)!"),
        ((one.outbox_id, status_text(one.status), one.subject, clock_time(one.created_at)) for one in found.messages),
        nothing="No mails to this address yet.",
    )


@app.command("list")
def list_command(
    *,
    status: Annotated[ContactStatus | None, typer.Option(help="Only those who stand so.", show_default=False)] = None,
    tenant: Tenant = tenants.DEFAULT,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List a tenant's people."""

    async def work(at: Installation) -> list[Contact]:
        owner = await tenants.find(at.database, tenant)
        return await contacts.list_page(at.database, owner.id, limit=limit, status=status)

    found = run(work)
    if as_json:
        print_json([contact(person) for person in found])
        return
    rows = ((person.email, person.name, person.status, clock_time(person.status_updated_at)) for person in found)
    print_rows(("Address", "Name", "Status!", "Since (UTC)!"), rows, nothing="Nobody.")


@app.command()
def activate(email: Email, tenant: Tenant = tenants.DEFAULT) -> None:
    """Write to a person again who bounced, complained or left all bulk mail. Lists that they left stay left."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await ContactStatusService(at.database, at.clock).activate(owner.id, email, source="cli")

    run(work)
    out.print(f"{email} may be written to again.", markup=False)


@app.command()
def history(email: Email, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show what happened with a person: lists, status, and every step of their latest mails."""

    async def work(at: Installation) -> list[ContactHistoryEntry]:
        owner = await tenants.find(at.database, tenant)
        found = await personal_data.history(at.database, owner.id, email)
        return found if as_json else await _as_read(at, owner.id, found)

    found = run(work)
    if as_json:
        print_json([{"at": isoformat(each.at), "what": each.what, "detail": each.detail} for each in found])
        return
    rows = ((clock_time(each.at), each.what, each.detail) for each in found)
    print_rows(("When (UTC)!", "What", "Of"), rows, nothing="Nothing.")


async def _as_read(at: Installation, tenant_id: int, found: list[ContactHistoryEntry]) -> list[ContactHistoryEntry]:
    stored = {each.outbox_id: each.detail for each in found if each.outbox_id is not None}
    said = await subjects_read(at, tenant_id, stored)
    return [replace(each, detail=said.get(each.outbox_id or "", each.detail)) for each in found]


@app.command()
def data(email: Email, tenant: Tenant = tenants.DEFAULT, as_json: Json = True) -> None:
    """Print everything that is known of a person, as JSON that can be handed to them: it has no other form."""

    async def work(at: Installation) -> dict[str, Any]:
        owner = await tenants.find(at.database, tenant)
        return await personal_data.export_personal_data(at.database, owner.id, email)

    print_json(run(work))


@app.command()
def erase(
    email: Email,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Erase a person: all that tells who they are, also in mails that were sent. They get no bulk mail again."""
    if not yes:
        typer.confirm(f"Erase {email}? That cannot be undone.", abort=True)

    async def work(at: Installation) -> int:
        owner = await tenants.find(at.database, tenant)
        folder = at.settings.imports
        return await erasure.erase(at.database, at.clock, owner.id, email, actor=CONSOLE, imports_folder=folder)

    count = run(work)
    out.print(f"Erased, with what {count} messages said. The address is kept only as one that gets no bulk mail.")


app.command("import")(contact_files.import_command)
app.command("export")(contact_files.export_command)


def _header(person: Contact) -> Table:
    made = Table.grid(padding=(0, 2))
    bounce = " / ".join(each for each in (person.bounce_type, person.bounce_subtype) if each)
    for name, value in (
        ("Address", person.email),
        ("Name", person.name),
        ("Id", person.contact_id),
        ("Status", person.status),
        ("Since", clock_time(person.status_updated_at) if person.status_updated_at else None),
        ("Told by", person.status_source),
        ("Bounce", bounce),
        ("Language", person.locale),
        ("Time zone", person.timezone),
    ):
        if value:
            made.add_row(name, value)
    return made


def _scope(list_key: str) -> str:
    return {ALL_MESSAGES: "any mail", "general": "bulk mail"}.get(list_key, f"list {list_key}")
