"""`mailwright webhook`: whom to tell what happens to mail, and what was told."""

from typing import Annotated, Final

import typer
from rich.text import Text

from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows, two_lines
from mailwright.events.outbound.deliveries import DELIVERED, FAILED, PENDING, Deliveries, Delivery
from mailwright.events.outbound.endpoints import TYPES, Endpoint, Endpoints, Wanted
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas import webhooks as answers

app = group("Outgoing webhooks: tell others what happens to mail.")

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="As `webhook add` printed it.", show_default=False)]
DeliveryId = Annotated[str, typer.Argument(metavar="ID", help="A deliveryId.", show_default=False)]
Status = Annotated[str | None, typer.Option(help="Only these: pending, delivered or failed.", show_default=False)]

STATES: Final = {"active": ("✓", "green"), "failing": ("↻", "yellow"), "paused": ("✗", "red"), "off": ("–", "dim")}
ENDS: Final = {DELIVERED: ("✓", "green"), PENDING: ("○", "cyan"), FAILED: ("✗", "red")}


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="As https://example.com/hooks/mail.", show_default=False)],
    *,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help=f"Of what, several times: {', '.join(TYPES)}.", show_default="all"),
    ] = None,
    description: Annotated[str, typer.Option(help="For yourself.", show_default=False)] = "",
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Tell an address from now on. Its id is printed on stdout; its secret is shown this once."""

    async def work(at: Installation) -> tuple[Endpoint, str]:
        owner = await tenants.find(at.database, tenant)
        wanted = Wanted(url, tuple(types or ()), description)
        return await _endpoints(at).create(owner.id, wanted, actor=CONSOLE)

    made, secret = run(work, creates=True)
    if as_json:
        print_json({**answers.webhook(made), "secret": secret})
        return
    aside.print(f"Its secret, shown this once: {secret}", markup=False, soft_wrap=True)
    out.print(made.webhook_id)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's webhooks, and how it stands with each."""

    async def work(at: Installation) -> list[Endpoint]:
        return await _endpoints(at).list_all((await tenants.find(at.database, tenant)).id)

    found = run(work)
    if as_json:
        print_json([answers.webhook(each) for each in found])
        return
    rows = ((each.webhook_id, two_lines(each.url, each.description), _state(each)) for each in found)
    nothing = f"{tenant} tells nobody; `mailwright webhook add URL` makes a webhook."
    print_rows(("Id!", "Where", "State"), rows, nothing=nothing)


@app.command()
def show(webhook: WebhookId, as_json: Json = False) -> None:
    """Show one webhook: where, of what, and why it is paused, if it is."""
    found = run(lambda at: _endpoints(at).find(webhook, tenant_id=None))
    if as_json:
        print_json(answers.webhook(found))
        return
    rows = (
        ("Where", found.url),
        ("Description", found.description or "–"),
        ("Of what", ", ".join(found.types)),
        ("State", _state(found)),
        ("Failing since", clock_time(found.failing_since)),
        ("Secrets", str(len(found.secrets))),
        ("Since", clock_time(found.created_at)),
    )
    print_rows(("", ""), rows, nothing="")


@app.command()
def deliveries(webhook: WebhookId, *, status: Status = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List what was told to a webhook, and what it answered."""

    async def work(at: Installation) -> list[Delivery]:
        endpoint = await _endpoints(at).find(webhook, tenant_id=None)
        wanted = None if status is None else status.upper()
        return await Deliveries(at.database, at.clock).some(endpoint, limit=limit, status=wanted)

    found = run(work)
    if as_json:
        print_json([answers.delivery(each) for each in found])
        return
    rows = (
        (two_lines(clock_time(each.created_at), each.type), _end(each), two_lines(each.delivery_id, _last(each)))
        for each in found
    )
    print_rows(("When (UTC), and what!", "State!", "Id, and the last answer"), rows, nothing="Nothing was told yet.")


@app.command()
def redeliver(delivery: DeliveryId) -> None:
    """Make a delivery once more, under the same id. A worker carries it."""
    found = run(lambda at: Deliveries(at.database, at.clock).redeliver(delivery, tenant_id=None, actor=CONSOLE))
    out.print(f"{found.delivery_id} is told again.", markup=False)


@app.command("test")
def try_out(webhook: WebhookId, as_json: Json = False) -> None:
    """Make a test delivery now, and show the answer. Exit code 1 where it was not taken."""

    async def work(at: Installation) -> Delivery:
        from mailwright.app.outbound_webhooks import make_posting  # noqa: PLC0415 - only this command speaks to the network

        endpoint, records = await _endpoints(at).find(webhook, tenant_id=None), Deliveries(at.database, at.clock)
        made = await records.test(endpoint, actor=CONSOLE)
        posting = make_posting(at.settings, at.database, at.clock)
        try:
            await posting.tell(endpoint, made.key)
        finally:
            await posting.close()
        return await records.find(made.delivery_id, tenant_id=None)

    found = run(work)
    if as_json:
        print_json(answers.delivery(found))
    else:
        out.print(_end(found), Text(_last(found)))
    if found.status != DELIVERED:
        raise typer.Exit(NEGATIVE)


@app.command("rotate-secret")
def rotate_secret(webhook: WebhookId) -> None:
    """Print a new secret. The one before signs beside it for a day."""
    _, secret = run(lambda at: _endpoints(at).rotate(webhook, tenant_id=None, actor=CONSOLE))
    out.print(secret, markup=False, soft_wrap=True)


@app.command()
def resume(webhook: WebhookId) -> None:
    """Tell a webhook again that was paused, beginning with what waited for it."""

    async def work(at: Installation) -> Endpoint:
        found = await _endpoints(at).find(webhook, tenant_id=None)
        wanted = Wanted(found.url, found.types, found.description)
        return await _endpoints(at).edit(webhook, wanted, tenant_id=None, actor=CONSOLE)

    out.print(f"{run(work).url} is told again.", markup=False)


@app.command()
def remove(webhook: WebhookId) -> None:
    """Tell an address no more. What was told to it is forgotten."""
    run(lambda at: _endpoints(at).remove(webhook, tenant_id=None, actor=CONSOLE))
    out.print(f"{webhook} is told nothing any more.", markup=False)


def _endpoints(at: Installation) -> Endpoints:
    return Endpoints(at.database, at.clock, allows_private=at.settings.webhook_private)


def _state(endpoint: Endpoint) -> Text:
    shape, colour = STATES[endpoint.state]
    reason = f": {endpoint.pause_reason}" if endpoint.pause_reason else ""
    return Text(f"{shape} {endpoint.state}{reason}", style=colour)


def _end(delivery: Delivery) -> Text:
    shape, colour = ENDS[delivery.status]
    return Text(f"{shape} {delivery.status}", style=colour)


def _last(delivery: Delivery) -> str:
    if not delivery.log:
        return ""
    last = delivery.log[-1]
    return str(last["error"] or f"{last['status']} {last['answer'][:100]}".strip())
