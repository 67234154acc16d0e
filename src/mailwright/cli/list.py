"""`mailwright list`: mailing lists and subscriptions."""

from typing import Annotated

import typer

from mailwright.app.system_emails import render_branded
from mailwright.audience import lists
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.audience.list_removal import ListRemoval
from mailwright.audience.lists import GENERAL, List
from mailwright.audience.search import count_subscribers
from mailwright.audience.status import ContactStatusService
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.schemas.lists import ListResponse, ListUpdateRequest
from mailwright.sources.api.validation import parse

app = group("Mailing lists and subscriptions.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The list key, for example product-news.", show_default=False)]
Tracking = Annotated[
    TrackingMode | None,
    typer.Option(help="The tracking of opens and clicks that this list allows at most.", show_default=False),
]
Email = Annotated[str, typer.Argument(metavar="ADDRESS", help="The email address.", show_default=False)]


@app.command()
def create(
    key: Key,
    *,
    name: Annotated[str | None, typer.Option(help="The name that subscribers see.", show_default="the key")] = None,
    description: Annotated[str | None, typer.Option(help="One line for subscribers.", show_default=False)] = None,
    public: Annotated[
        bool, typer.Option("--public/--private", help="Whether the list is shown on public pages.")
    ] = True,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Require double opt-in: new subscribers confirm by email.")
    ] = False,
    tracking: Tracking = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Create a list. Recipients can unsubscribe from each list separately."""

    async def work(at: Installation) -> List:
        owner = await find_tenant(at, tenant)
        return await lists.create(
            at.database,
            at.clock,
            owner.id,
            key,
            name=name,
            description=description,
            is_public=public,
            requires_confirmation=confirm,
            tracking=tracking,
            actor=CONSOLE,
        )

    out.print(f"Created the list {run(work, creates=True).list_key}.", markup=False)


@app.command("list")
def list_command(
    *,
    archived: Annotated[bool, typer.Option("--archived", help="Also list archived lists.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """List a tenant's lists. `general` stands for all bulk email, always exists and is not shown."""

    async def work(at: Installation) -> list[tuple[List, int]]:
        owner = await find_tenant(at, tenant)
        found = await lists.list_all(at.database, owner.id, with_archived=archived)
        return [
            (each, 0 if as_json else await count_subscribers(at.database, owner.id, each.list_key)) for each in found
        ]

    found = run(work)
    if as_json:
        print_json([ListResponse.model_validate(entry).to_dict() for entry, _ in found])
        return
    rows = (
        (
            entry.list_key,
            entry.name,
            "yes" if entry.is_public else "no",
            "double opt-in" if entry.requires_confirmation else "single opt-in",
            people,
            clock_time(entry.created_at),
        )
        for entry, people in found
    )
    nothing = f"{tenant} has only the list {GENERAL}. Create one with `mailwright list create KEY`."
    print_rows(("Key!", "Name", "Public", "Sign-up", "Subscribers#", "Created ({zone})!"), rows, nothing=nothing)


@app.command()
def edit(
    key: Key,
    *,
    name: Annotated[str | None, typer.Option(help="The name that subscribers see.", show_default=False)] = None,
    description: Annotated[
        str | None, typer.Option(help="One line for subscribers; empty removes it.", show_default=False)
    ] = None,
    public: Annotated[
        bool | None,
        typer.Option("--public/--private", help="Whether the list is shown on public pages.", show_default=False),
    ] = None,
    confirm: Annotated[
        bool | None,
        typer.Option(
            "--confirm/--no-confirm",
            help="Whether new subscribers confirm by email.",
            show_default=False,
        ),
    ] = None,
    tracking: Tracking = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Edit a list. Options that are not given stay as they are."""
    if all(each is None for each in (name, description, public, confirm, tracking)):
        raise typer.BadParameter("give at least one of --name, --description, --public, --confirm, --tracking")
    wanted = parse(
        ListUpdateRequest,
        {
            "name": name,
            "description": description,
            "isPublic": public,
            "requiresConfirmation": confirm,
            "tracking": tracking,
        },
    )

    async def work(at: Installation) -> List:
        owner = await find_tenant(at, tenant)
        return await lists.edit(
            at.database,
            at.clock,
            owner.id,
            key,
            name=wanted.name,
            description=wanted.description,
            is_public=wanted.is_public,
            requires_confirmation=wanted.requires_confirmation,
            tracking=wanted.tracking,
            actor=CONSOLE,
        )

    out.print(f"Updated the list {run(work).list_key}.", markup=False)


@app.command()
def delete(
    key: Key,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Delete a list and its subscriptions. The contacts and the records of unsubscribes stay."""
    if not yes:
        typer.confirm(f"Delete the list {key} and its subscriptions?", abort=True)

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await ListRemoval(at.database, at.clock).delete(owner.id, key, actor=CONSOLE)

    run(work)
    out.print(f"Deleted the list {key}. For 30 days, `mailwright list restore {key}` brings it back.", markup=False)


@app.command()
def archive(key: Key, tenant: Tenant = tenants.DEFAULT) -> None:
    """Hide a list from pages, sign-up forms and campaigns. Its subscribers stay."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await ListRemoval(at.database, at.clock).archive(owner.id, key, actor=CONSOLE)

    run(work)
    out.print(f"Archived the list {key}.", markup=False)


@app.command()
def restore(key: Key, tenant: Tenant = tenants.DEFAULT) -> None:
    """Bring back an archived or deleted list with its subscribers."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await ListRemoval(at.database, at.clock).restore(owner.id, key, actor=CONSOLE)

    run(work)
    out.print(f"Restored the list {key}.", markup=False)


@app.command()
def subscribe(
    key: Key,
    email: Email,
    *,
    confirmed: Annotated[
        bool, typer.Option("--confirmed", help="Send no confirmation email, because the contact confirmed elsewhere.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Subscribe or resubscribe a contact. Addresses that bounced or complained stay suppressed."""

    async def work(at: Installation) -> bool:
        owner = await find_tenant(at, tenant)
        if confirmed:
            await ContactStatusService(at.database, at.clock).subscribe(
                owner.id, email, key, source="cli", actor=CONSOLE
            )
            return False
        given = at.settings.unsubscribe_secret
        secret = given.get_secret_value() if given else await get_or_create_secret(at.database, UNSUBSCRIBE_SECRET)
        links = ConfirmationLinks(at.settings.public_url, UnsubscribeTokens(secret))
        return await DoubleOptIn(at.database, at.clock, links, render_branded).subscribe(
            owner.id, email, key, source="cli", actor=CONSOLE
        )

    is_asked = run(work, creates=True)
    out.print(
        f"Sent a confirmation email to {email}." if is_asked else f"{email} is subscribed to {key}.", markup=False
    )


@app.command()
def unsubscribe(key: Key, email: Email, tenant: Tenant = tenants.DEFAULT) -> None:
    """Unsubscribe a contact from a list; `general` means all bulk email."""

    async def work(at: Installation) -> None:
        owner = await find_tenant(at, tenant)
        await ContactStatusService(at.database, at.clock).unsubscribe(owner.id, email, key, source="cli", actor=CONSOLE)

    run(work, creates=True)
    out.print(f"{email} is unsubscribed from {key}.", markup=False)
