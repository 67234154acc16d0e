"""`mailwright key`: API keys, each for one tenant."""

from typing import Annotated

import typer

from mailwright.access.api_keys import ApiKey, ApiKeys
from mailwright.access.roles import ALL_SCOPES, Scope
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.domain.allowed_senders import parse_allowed_senders
from mailwright.domain.errors import InvalidInput
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.schemas.access import api_key_response

app = group("API keys.")

KeyId = Annotated[int, typer.Argument(metavar="ID", help="The id shown by `key list`.", show_default=False)]


@app.command()
def create(
    *,
    tenant: Tenant = tenants.DEFAULT,
    name: Annotated[str, typer.Option(help="What the key is for, for example shop-backend.")] = "",
    scope: Annotated[
        list[Scope] | None, typer.Option(help="A scope; can be repeated.", show_default="all scopes")
    ] = None,
    sender: Annotated[
        list[str] | None,
        typer.Option(
            help="An address (news@example.com) or domain (@example.com) that the key may send from; can be repeated.",
            show_default="every sender",
        ),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="LOGIN",
            help="The user who is responsible for the key, and therefore cannot approve its requests.",
            show_default="nobody",
        ),
    ] = None,
    ses: Annotated[
        bool, typer.Option("--ses", help="Create a key pair that signs requests of the SDKs of AWS to /v2/email.")
    ] = False,
) -> None:
    """Create a key and print only the key on stdout. It is not shown again.

    Mailwright stores the digest of a key. With --ses, it prints a key pair as two environment variables and stores the
    secret encrypted as well, because signatures cannot be verified with a digest. The secret is a key for all routes.
    """

    async def work(at: Installation) -> str:
        home, keys = await find_tenant(at, tenant), ApiKeys(at.database, at.clock)
        scopes, senders = frozenset(scope or ALL_SCOPES), parse_allowed_senders(_checked_senders(sender))
        if not ses:
            return await keys.create(home.id, name, scopes, senders, owner=owner)
        pair = await keys.create_pair(home.id, name, scopes, senders, owner=owner)
        return f"AWS_ACCESS_KEY_ID={pair.access_key_id}\nAWS_SECRET_ACCESS_KEY={pair.key}"

    typer.echo(run(work, creates=True))


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's keys, including revoked ones, with their last four characters."""

    async def work(at: Installation) -> list[ApiKey]:
        home = await find_tenant(at, tenant)
        return await ApiKeys(at.database, at.clock).list_all(home.id)

    found = run(work)
    if as_json:
        print_json([api_key_response(key).to_dict() for key in found])
        return
    rows = (
        (
            key.id,
            f"…{key.hint}",
            key.name or "–",
            ", ".join(_scopes(key)),
            str(key.senders or "every sender"),
            key.owner or "nobody",
            clock_time(key.created_at),
            clock_time(key.revoked_at),
        )
        for key in found
    )
    nothing = f"The tenant {tenant} has no keys. Create one with `mailwright key create --tenant {tenant}`."
    columns = ("Id#", "Key!", "Name", "Scopes", "Senders", "Owner", "Created ({zone})!", "Revoked ({zone})!")
    print_rows(columns, rows, nothing=nothing)


@app.command()
def edit(
    key_id: KeyId,
    owner: Annotated[
        str, typer.Option(metavar="LOGIN", help="The user who is responsible for the key.", show_default=False)
    ],
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Change the owner of a key. If a tenant requires approvals, only keys with an owner can request them."""

    async def work(at: Installation) -> str:
        home = await find_tenant(at, tenant)
        return await ApiKeys(at.database, at.clock).set_owner(home.id, key_id, owner, actor=CONSOLE)

    out.print(f"The owner of key {key_id} is now {run(work)}.")


@app.command()
def revoke(
    key_id: KeyId,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Revoke a key permanently. It stops working within one second."""

    async def work(at: Installation) -> None:
        home = await find_tenant(at, tenant)
        await ApiKeys(at.database, at.clock).revoke(home.id, key_id)

    run(work)
    out.print(f"Key {key_id} revoked.")


def _checked_senders(senders: list[str] | None) -> list[str]:
    """Return the senders. An empty one, for example of an unset shell variable, must not mean every sender."""
    if any(not sender.strip() for sender in senders or ()):
        raise InvalidInput("--sender is empty. Name an address or a domain, or leave it out.", field="sender")
    return senders or []


def _scopes(key: ApiKey) -> list[str]:
    return [scope for scope in Scope if scope in key.scopes]
