"""`mailwright webhook`: outbound webhooks and their deliveries."""

from typing import Annotated, Final

import typer
from rich.text import Text

from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Limit, Tenant, group
from mailwright.cli.output import aside, clock_time, out, print_json, print_rows, two_lines
from mailwright.events.outbound.deliveries import DELIVERED, FAILED, PENDING, WebhookDeliveries, WebhookDelivery
from mailwright.events.outbound.endpoints import (
    WEBHOOK_EVENT_TYPES,
    WebhookEndpoint,
    WebhookEndpointInput,
    WebhookEndpoints,
)
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.webhooks import webhook_delivery_response, webhook_response, webhook_secret_response

app = group("Outbound webhooks.")

WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook id.", show_default=False)]
DeliveryId = Annotated[str, typer.Argument(metavar="ID", help="The delivery id.", show_default=False)]
Status = Annotated[str | None, typer.Option(help="pending, delivered or failed.", show_default=False)]

STATES: Final = {"active": ("✓", "green"), "failing": ("↻", "yellow"), "paused": ("✗", "red"), "off": ("–", "dim")}
STATUSES: Final = {DELIVERED: ("✓", "green"), PENDING: ("○", "cyan"), FAILED: ("✗", "red")}


@app.command()
def create(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The URL, such as https://example.com/hooks/mail.", show_default=False)
    ],
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", help=f"An event type, can be repeated: {', '.join(WEBHOOK_EVENT_TYPES)}.", show_default="all"
        ),
    ] = None,
    description: Annotated[str, typer.Option(help="A note for yourself.", show_default=False)] = "",
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Create a webhook. Its id is printed on stdout and its secret on stderr. The secret is shown only once."""

    async def work(at: Installation) -> tuple[WebhookEndpoint, str]:
        owner = await find_tenant(at, tenant)
        wanted = WebhookEndpointInput(url, tuple(types or ()), description)
        return await _endpoints(at).create(owner.id, wanted, actor=CONSOLE)

    made, secret = run(work, creates=True)
    if as_json:
        print_json(webhook_secret_response(made, secret).to_dict())
        return
    aside.print(f"Secret (shown once): {secret}", markup=False, soft_wrap=True)
    out.print(made.webhook_id)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's webhooks with their state."""

    async def work(at: Installation) -> list[WebhookEndpoint]:
        return await _endpoints(at).list_all((await find_tenant(at, tenant)).id)

    found = run(work)
    if as_json:
        print_json([webhook_response(each).to_dict() for each in found])
        return
    rows = ((each.webhook_id, two_lines(each.url, each.description), _state(each)) for each in found)
    nothing = f"{tenant} has no webhooks. Create one with `mailwright webhook create URL`."
    print_rows(("Id!", "URL", "State"), rows, nothing=nothing)


@app.command()
def show(webhook: WebhookId, as_json: Json = False) -> None:
    """Show a webhook. If it is paused, show the reason."""
    found = run(lambda at: _endpoints(at).find(webhook, tenant_id=None))
    if as_json:
        print_json(webhook_response(found).to_dict())
        return
    rows = (
        ("URL", found.url),
        ("Description", found.description or "–"),
        ("Event types", ", ".join(found.types)),
        ("State", _state(found)),
        ("Failing since", clock_time(found.failing_since)),
        ("Secrets", str(len(found.secrets))),
        ("Created", clock_time(found.created_at)),
    )
    print_rows(("", ""), rows, nothing="")


@app.command()
def deliveries(webhook: WebhookId, *, status: Status = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List the deliveries of a webhook and their responses."""

    async def work(at: Installation) -> list[WebhookDelivery]:
        endpoint = await _endpoints(at).find(webhook, tenant_id=None)
        wanted = None if status is None else status.upper()
        return await WebhookDeliveries(at.database, at.clock).list_deliveries(endpoint, limit=limit, status=wanted)

    found = run(work)
    if as_json:
        print_json([webhook_delivery_response(each).to_dict() for each in found])
        return
    rows = (
        (
            two_lines(clock_time(each.created_at), each.type),
            _status(each),
            two_lines(each.delivery_id, _last_response(each)),
        )
        for each in found
    )
    print_rows(("Time ({zone}) and event!", "State!", "Id and last response"), rows, nothing="No deliveries yet.")


@app.command()
def redeliver(delivery: DeliveryId) -> None:
    """Repeat a delivery under the same id. A worker sends it."""
    found = run(lambda at: WebhookDeliveries(at.database, at.clock).redeliver(delivery, tenant_id=None, actor=CONSOLE))
    out.print(f"Queued {found.delivery_id} for redelivery.", markup=False)


@app.command("test")
def send_test(webhook: WebhookId, as_json: Json = False) -> None:
    """Send a test delivery now and show the response. Exit code 1 if it fails."""

    async def work(at: Installation) -> WebhookDelivery:
        from mailwright.app.outbound_webhooks import make_webhook_dispatcher  # noqa: PLC0415 - only this command needs the HTTP client

        endpoint, records = await _endpoints(at).find(webhook, tenant_id=None), WebhookDeliveries(at.database, at.clock)
        made = await records.create_test(endpoint, actor=CONSOLE)
        posting = make_webhook_dispatcher(at.settings, at.database, at.clock)
        try:
            await posting.dispatch_one(endpoint, made.key)
        finally:
            await posting.close()
        return await records.find(made.delivery_id, tenant_id=None)

    found = run(work)
    if as_json:
        print_json(webhook_delivery_response(found).to_dict())
    else:
        out.print(_status(found), Text(_last_response(found)))
    if found.status != DELIVERED:
        raise typer.Exit(NEGATIVE)


@app.command("rotate-secret")
def rotate_secret(webhook: WebhookId) -> None:
    """Create a new secret and print it. The old one stays valid for a day."""
    _, secret = run(lambda at: _endpoints(at).rotate(webhook, tenant_id=None, actor=CONSOLE))
    out.print(secret, markup=False, soft_wrap=True)


@app.command()
def resume(webhook: WebhookId) -> None:
    """Resume a paused webhook, starting with its waiting deliveries."""

    async def work(at: Installation) -> WebhookEndpoint:
        found = await _endpoints(at).find(webhook, tenant_id=None)
        wanted = WebhookEndpointInput(found.url, found.types, found.description)
        return await _endpoints(at).edit(webhook, wanted, tenant_id=None, actor=CONSOLE)

    out.print(f"Resumed {run(work).url}.", markup=False)


@app.command()
def delete(webhook: WebhookId) -> None:
    """Delete a webhook and its deliveries."""
    run(lambda at: _endpoints(at).remove(webhook, tenant_id=None, actor=CONSOLE))
    out.print(f"Deleted the webhook {webhook}.", markup=False)


def _endpoints(at: Installation) -> WebhookEndpoints:
    return WebhookEndpoints(at.database, at.clock, allows_private=at.settings.webhook_private)


def _state(endpoint: WebhookEndpoint) -> Text:
    shape, colour = STATES[endpoint.state]
    reason = f": {endpoint.pause_reason}" if endpoint.pause_reason else ""
    return Text(f"{shape} {endpoint.state}{reason}", style=colour)


def _status(delivery: WebhookDelivery) -> Text:
    shape, colour = STATUSES[delivery.status]
    return Text(f"{shape} {delivery.status}", style=colour)


def _last_response(delivery: WebhookDelivery) -> str:
    if not delivery.log:
        return ""
    last = delivery.log[-1]
    return str(last["error"] or f"{last['status']} {last['answer'][:100]}".strip())
