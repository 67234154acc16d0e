"""`mailwright message send`: accept one email, as `POST /v1/email/send` does."""

import asyncio
from typing import Annotated, Any

import typer

from mailwright.cli.json_input import json_object
from mailwright.cli.opening import Installation, settings_for_command, warn_if_held
from mailwright.cli.options import HtmlFile, Json, Tenant
from mailwright.cli.output import aside, out, print_json
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE


def send_command(
    *,
    to: Annotated[str, typer.Option(metavar="EMAIL", help="The recipient.", show_default=False)],
    subject: Annotated[
        str | None, typer.Option(help="The subject; with a template it replaces the template's.", show_default=False)
    ] = None,
    text: Annotated[
        typer.FileText | None,
        typer.Option(metavar="FILE", help="A file with the text; - reads stdin.", encoding="utf-8", show_default=False),
    ] = None,
    html: HtmlFile = None,
    template: Annotated[
        str | None, typer.Option(metavar="ID", help="A template instead of text and HTML.", show_default=False)
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--var", metavar="NAME=VALUE", help="A variable of the template; JSON or plain text.", show_default=False
        ),
    ] = None,
    data: Annotated[
        typer.FileText | None,
        typer.Option(
            metavar="FILE",
            help="A JSON file with variables of the template; - reads stdin.",
            encoding="utf-8",
            show_default=False,
        ),
    ] = None,
    sender: Annotated[
        str | None, typer.Option("--from", help="The sender.", show_default="that of the installation or tenant")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Accept the email only once, if it is sent again.", show_default=False),
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Accept one email with the rules of POST /v1/email/send, and print its ID. A worker sends it."""
    body = {
        "to": to,
        "subject": subject,
        "text": None if text is None else text.read(),
        "html": None if html is None else html.read(),
        "templateId": template,
        "variables": _variables(values or [], data) or None,
        "from": sender,
    }
    given = {name: value for name, value in body.items() if value is not None}
    content, is_replay = asyncio.run(_send(tenant, given, idempotency_key, as_json=as_json))
    if as_json:
        print_json(content)
        return
    for each in content.get("warnings", ()):
        aside.print(f"! {each['detail']} [{each['code']}]", markup=False, soft_wrap=True)
    if is_replay:
        aside.print("This idempotency key was used before with the same email, so it is not sent again.")
    out.print(content["outboxId"], markup=False)


async def _send(
    tenant: str, body: dict[str, Any], idempotency_key: str | None, *, as_json: bool
) -> tuple[dict[str, Any], bool]:
    from mailwright.access.api_keys import Caller  # noqa: PLC0415 - as below
    from mailwright.actions.accepted_messages import accepted_content, sending_held_response  # noqa: PLC0415 - as above
    from mailwright.app.wiring import open_engine  # noqa: PLC0415 - other commands about messages stay fast
    from mailwright.domain.ids import uuid7  # noqa: PLC0415 - as above
    from mailwright.sources.api.messages import RequestContext  # noqa: PLC0415 - as above
    from mailwright.sources.api.validation import require_idempotency_key  # noqa: PLC0415 - as above

    if idempotency_key is not None:
        require_idempotency_key(idempotency_key, "idempotencyKey")
    async with open_engine(settings_for_command()) as engine:
        owner = await tenants.find(engine.database, tenant)
        caller = Caller(owner.id, owner.name, actor=CONSOLE)
        context = RequestContext(caller, uuid7(engine.clock.now()), idempotency_key)
        accepted = await engine.api_messages.send(context, body)
        held = sending_held_response(await engine.hold_watch.current(), engine.clock.now())
        if held is not None and not as_json:
            await warn_if_held(Installation(engine.settings, engine.clock, engine.database))
        return accepted_content(accepted, held), accepted.is_replay


def _variables(values: list[str], data: typer.FileText | None) -> dict[str, Any]:
    from mailwright.cli.campaign_input import variables  # noqa: PLC0415 - slow to import

    found = {} if data is None else json_object(data.read(), "data", example='{"name": "Ada"}')
    return {**found, **variables(values)}
