"""`mailwright webhook test`, which sends at once. The other commands are derived from the actions."""

import typer

from mailwright.actions.webhooks import WebhookDeliveryResponse, delivery_lines, noun
from mailwright.cli.derived import make_group, print_lines
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json
from mailwright.cli.output import print_json
from mailwright.events.outbound.deliveries import DELIVERED, WebhookDeliveries, WebhookDelivery
from mailwright.events.outbound.endpoints import WebhookEndpoints
from mailwright.outbox.audit_log import CONSOLE

app = make_group(noun)


@app.command("test")
def send_test(
    webhook_id: str = typer.Argument(metavar="ID", help="The webhook id.", show_default=False), as_json: Json = False
) -> None:
    """Send a test delivery now and show the response. Exit code 1 if it fails."""

    async def work(at: Installation) -> WebhookDelivery:
        from mailwright.app.outbound_webhooks import make_webhook_dispatcher  # noqa: PLC0415 - slow to import

        endpoint = await WebhookEndpoints(at.database, at.clock).find(webhook_id, tenant_id=None)
        records = WebhookDeliveries(at.database, at.clock)
        made = await records.create_test(endpoint, actor=CONSOLE)
        posting = make_webhook_dispatcher(at.settings, at.database, at.clock)
        try:
            await posting.dispatch_one(endpoint, made.key)
        finally:
            await posting.close()
        return await records.find(made.delivery_id, tenant_id=None)

    found = WebhookDeliveryResponse.model_validate(run(work))
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(delivery_lines(found, {}), found)
    if found.status != DELIVERED:
        raise typer.Exit(NEGATIVE)
