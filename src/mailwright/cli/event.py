"""`mailwright event send`, which can create a new database. The other commands are derived from the actions."""

from typing import Annotated

import typer

from mailwright.access.api_keys import Caller
from mailwright.actions.contact_events import events_content, noun
from mailwright.audience.contact_events import ContactEvents
from mailwright.cli.derived import make_group
from mailwright.cli.json_input import parse_json
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import out, print_json
from mailwright.domain.ids import uuid7
from mailwright.outbox import tenants
from mailwright.sources.api.contact_events import ApiEvents, EventResult
from mailwright.sources.api.messages import RequestContext

app = make_group(noun)


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
