"""`mailwright event`: what contacts did in the tenant's own systems."""

from typing import Annotated

import orjson
import typer

from mailwright.access.api_keys import Caller
from mailwright.audience.contact_events import ContactEvent, ContactEvents, list_latest
from mailwright.audience.contact_fields import normalize_email
from mailwright.audience.event_schema import EventSchema, EventSchemaCounter, load_schema
from mailwright.cli.json_input import parse_json
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.domain.ids import uuid7
from mailwright.outbox import tenants
from mailwright.schemas.contact_events import contact_event_response, event_schema_response, events_content
from mailwright.sources.api.contact_events import ApiEvents, EventResult
from mailwright.sources.api.messages import RequestContext

app = group("Contact events: what contacts did in your own systems.")


@app.command("list")
def list_command(
    event: Annotated[str | None, typer.Option(help="Only events with this name.", show_default=False)] = None,
    email: Annotated[str | None, typer.Option(help="Only events of this address.", show_default=False)] = None,
    limit: Limit = 20,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """List a tenant's contact events, latest first."""

    async def work(at: Installation) -> list[ContactEvent]:
        owner = await find_tenant(at, tenant)
        address = None if email is None else normalize_email(email)
        return await list_latest(at.database, owner.id, limit=limit, email=address, name=event)

    found = run(work)
    if as_json:
        print_json([contact_event_response(each).to_dict() for each in found])
        return
    rows = (
        (clock_time(each.occurred_at), each.name, each.email, orjson.dumps(each.properties).decode()) for each in found
    )
    print_rows(("Time ({zone})!", "Event", "Address", "Properties"), rows, nothing="No events.")


@app.command()
def schema(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show the names of events with the properties and types that were seen."""

    async def work(at: Installation) -> list[EventSchema]:
        owner = await find_tenant(at, tenant)
        await EventSchemaCounter(at.database).count_all()
        return await load_schema(at.database, owner.id)

    found = run(work)
    if as_json:
        print_json(event_schema_response(found).to_dict()["events"])
        return
    rows = (
        (
            each.name,
            f"{each.events:,}",
            clock_time(each.last_at),
            ", ".join(f"{one.name} ({' or '.join(one.types)})" for one in each.properties),
        )
        for each in found
    )
    print_rows(("Event", "Count#", "Last ({zone})!", "Properties"), rows, nothing="No events.")


@app.command()
def send(
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The name, for example order.placed.")],
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The address of the contact.")],
    properties: Annotated[
        str, typer.Argument(metavar="PROPERTIES", help='A JSON object, for example {"total": 59.9}.')
    ] = "{}",
    *,
    event_id: Annotated[
        str | None,
        typer.Option("--id", help="Your own ID. Only the first event with it is stored.", show_default=False),
    ] = None,
    occurred_at: Annotated[
        str | None, typer.Option("--at", help="When it occurred: 2027-01-15T08:00:00Z.", show_default="now")
    ] = None,
    create_contact: Annotated[
        bool, typer.Option("--create-contact", help="Create the contact if there is none, without subscriptions.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Store one event of a contact, as POST /v1/events does."""
    given = {
        "event": event,
        "email": email,
        "properties": parse_json(properties, "PROPERTIES"),
        "createContact": create_contact,
    }
    given |= {name: value for name, value in (("eventId", event_id), ("occurredAt", occurred_at)) if value is not None}

    async def work(at: Installation) -> list[EventResult]:
        owner = await find_tenant(at, tenant)
        context = RequestContext(Caller(owner.id, owner.name), uuid7(at.clock.now()))
        return await ApiEvents(at.clock, ContactEvents(at.database, at.clock)).submit(context, given)

    results = run(work, creates=True)
    if as_json:
        print_json(events_content(results)["results"][0])
        return
    out.print(f"{results[0].event_id} {results[0].status}", markup=False)
