"""`mailwright lists`: what bulk mail is sent under, and who joins and leaves."""

from typing import Annotated

import typer

from mailwright.audience import lists
from mailwright.audience.double_opt_in import ConfirmationLinks, DoubleOptIn
from mailwright.audience.lists import GENERAL, List
from mailwright.audience.search import count_subscribers
from mailwright.audience.status import ContactStatusService
from mailwright.cli.opening import Installation, run
from mailwright.cli.options import Json, Tenant, group
from mailwright.cli.output import clock_time, out, print_json, print_rows
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.outbox.installation import UNSUBSCRIBE_SECRET, get_or_create_secret
from mailwright.schemas.answers import mailing_list
from mailwright.sources.api.requests import ListUpdateRequest, parse

app = group("Lists that readers join and leave.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="As in product-news.", show_default=False)]
Email = Annotated[str, typer.Argument(metavar="ADDRESS", help="In any spelling.", show_default=False)]


@app.command()
def create(
    key: Key,
    *,
    name: Annotated[
        str | None, typer.Option(help="What readers see; the key if not given.", show_default=False)
    ] = None,
    description: Annotated[str | None, typer.Option(help="One line for readers.", show_default=False)] = None,
    public: Annotated[
        bool, typer.Option("--public/--private", help="Whether readers who are not on it see it.")
    ] = True,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Whoever is put on it is asked by mail first (double opt-in).")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Make a list. Mail that is sent with its key can be left by itself."""

    async def work(at: Installation) -> List:
        owner = await tenants.find(at.database, tenant)
        return await lists.create(
            at.database,
            at.clock,
            owner.id,
            key,
            name=name,
            description=description,
            is_public=public,
            requires_confirmation=confirm,
            actor=CONSOLE,
        )

    out.print(f"The list {run(work, creates=True).list_key} is made.", markup=False)


@app.command("list")
def list_command(tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """List a tenant's lists. `general`, which stands for all bulk mail, is always there and not among them."""

    async def work(at: Installation) -> list[tuple[List, int]]:
        owner = await tenants.find(at.database, tenant)
        found = await lists.list_all(at.database, owner.id)
        return [
            (each, 0 if as_json else await count_subscribers(at.database, owner.id, each.list_key)) for each in found
        ]

    found = run(work)
    if as_json:
        print_json([mailing_list(entry) for entry, _ in found])
        return
    rows = (
        (
            entry.list_key,
            entry.name,
            "yes" if entry.is_public else "no",
            "confirms" if entry.requires_confirmation else "at once",
            people,
            clock_time(entry.created_at),
        )
        for entry, people in found
    )
    nothing = f"{tenant} has no list but {GENERAL}; `mailwright lists create KEY` makes one."
    print_rows(("Key!", "Name", "Public", "Joining", "People#", "Since (UTC)!"), rows, nothing=nothing)


@app.command()
def edit(
    key: Key,
    *,
    name: Annotated[str | None, typer.Option(help="What readers see.", show_default=False)] = None,
    description: Annotated[
        str | None, typer.Option(help="One line for readers; an empty one takes it away.", show_default=False)
    ] = None,
    public: Annotated[
        bool | None,
        typer.Option("--public/--private", help="Whether readers who are not on it see it.", show_default=False),
    ] = None,
    confirm: Annotated[
        bool | None,
        typer.Option(
            "--confirm/--no-confirm",
            help="Whether whoever is put on it from now on is asked by mail first.",
            show_default=False,
        ),
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Change a list: what no option names stays, and so do all who are on it."""
    if name is None and description is None and public is None and confirm is None:
        raise typer.BadParameter("Name what is to change: --name, --description, --public, --confirm …")
    wanted = parse(
        ListUpdateRequest,
        {"name": name, "description": description, "isPublic": public, "requiresConfirmation": confirm},
    )

    async def work(at: Installation) -> List:
        owner = await tenants.find(at.database, tenant)
        return await lists.edit(
            at.database,
            at.clock,
            owner.id,
            key,
            name=wanted.name,
            description=wanted.description,
            is_public=wanted.is_public,
            requires_confirmation=wanted.requires_confirmation,
            actor=CONSOLE,
        )

    out.print(f"The list {run(work).list_key} is changed.", markup=False)


@app.command()
def subscribe(
    key: Key,
    email: Email,
    *,
    confirmed: Annotated[
        bool, typer.Option("--confirmed", help="They have agreed elsewhere: do not ask, even if the list does.")
    ] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Put a person on a list, also one who left it. Whoever bounced or complained gets nothing all the same."""

    async def work(at: Installation) -> bool:
        owner = await tenants.find(at.database, tenant)
        if confirmed:
            await ContactStatusService(at.database, at.clock).subscribe(
                owner.id, email, key, source="cli", actor=CONSOLE
            )
            return False
        given = at.settings.unsubscribe_secret
        secret = given.get_secret_value() if given else await get_or_create_secret(at.database, UNSUBSCRIBE_SECRET)
        links = ConfirmationLinks(at.settings.public_url, UnsubscribeTokens(secret))
        return await DoubleOptIn(at.database, at.clock, links).subscribe(
            owner.id, email, key, source="cli", actor=CONSOLE
        )

    is_asked = run(work, creates=True)
    out.print(f"{email} is asked to confirm." if is_asked else f"{email} is on {key}.", markup=False)


@app.command()
def unsubscribe(key: Key, email: Email, tenant: Tenant = tenants.DEFAULT) -> None:
    """Take a person off a list; `general` takes them off all bulk mail."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await ContactStatusService(at.database, at.clock).unsubscribe(owner.id, email, key, source="cli", actor=CONSOLE)

    run(work, creates=True)
    out.print(f"{email} has left {key}.", markup=False)
