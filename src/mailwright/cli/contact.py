"""`mailwright contact`: commands that read files, take a number of days, or show subjects as recipients see them.

The others are derived from the actions.
"""

from dataclasses import replace
from typing import Annotated

import typer
from rich.table import Table

from mailwright.actions.contacts import (
    ContactHistoryEntryResponse,
    contact_response,
    erasure_lines,
    erasure_response,
    noun,
)
from mailwright.actions.messages import rendered_subjects, status_badge
from mailwright.audience import contacts, personal_data
from mailwright.audience.contact_fields import as_text
from mailwright.audience.contacts import Contact, ContactDetails, Membership
from mailwright.audience.legal_basis import NO_BASIS, LegalBasis, legal_basis_record
from mailwright.audience.personal_data import ContactHistoryEntry
from mailwright.audience.snooze import MAX_DAYS
from mailwright.audience.snooze import snooze as set_pause
from mailwright.audience.suppressions import scope_text
from mailwright.audience.tracking_consent import make_consent
from mailwright.cli import contact_files, contact_switch
from mailwright.cli.derived import make_group, print_lines, shown_value
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant
from mailwright.cli.output import clock_time, out, print_json, print_rows, two_lines
from mailwright.domain.clock import DAY
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE

app = make_group(noun)

Email = Annotated[str, typer.Argument(metavar="ADDRESS", help="The email address.", show_default=False)]


@app.command()
def show(email: Email, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show a contact's status, lists, suppressions and latest messages, with the fields of GET /v1/contacts/…"""

    async def work(at: Installation) -> ContactDetails:
        owner = await find_tenant(at, tenant)
        found = await contacts.load_details(at.database, owner.id, email)
        stored = {} if as_json else {each.outbox_id: each.subject for each in found.messages}
        subjects = await rendered_subjects(at.database, at.clock, owner.id, stored)
        messages = tuple(replace(each, subject=subjects.get(each.outbox_id, each.subject)) for each in found.messages)
        return replace(found, messages=messages)

    found = run(work)
    if as_json:
        print_json(contact_response(found).to_dict())
        return
    out.print(_header(found.contact))
    if found.erasure is not None:
        print_lines(erasure_lines(erasure_response(found.erasure), {}), None)
    print_rows(
        ("Attribute!", "Value"),
        ((name, as_text(value)) for name, value in sorted(found.contact.attributes.items())),
        nothing="No attributes.",
    )
    if found.tags:
        out.print(f"Tags: {', '.join(found.tags)}", markup=False)
    print_rows(
        ("List!", "Status!", "Subscribed ({zone})!", "Unsubscribed ({zone})!"),
        (_membership(each) for each in found.lists),
        nothing="Not subscribed to any list.",
    )
    print_rows(
        ("Suppressed!", "Reason", "Source", "Since ({zone})!"),
        (
            (scope_text(entry.list_key), entry.reason, entry.source, clock_time(entry.created_at))
            for entry in found.suppressions
        ),
        nothing="Not suppressed.",
    )
    print_rows(
        ("Message and time ({zone})!", "Status!", "Subject"),
        (
            (
                two_lines(one.outbox_id, clock_time(one.created_at)),
                shown_value(status_badge(one.shown_status)),
                one.subject,
            )
            for one in found.messages
        ),
        nothing="No messages to this address yet.",
    )


def _membership(each: Membership) -> tuple[str, str, str, str]:
    """Return the row of a list. The time of a pending subscription is when the contact was asked."""
    since = clock_time(each.subscribed_at)
    if each.is_pending:
        return each.list_key, f"asked {since}; not confirmed" if since else "not confirmed", "", ""
    status = "subscribed" if each.unsubscribed_at is None else "unsubscribed"
    return each.list_key, status, since, clock_time(each.unsubscribed_at)


@app.command()
def snooze(
    email: Email,
    days: Annotated[
        str, typer.Argument(metavar="DAYS|off", help="How long to pause bulk email; off ends it.", show_default=False)
    ],
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Pause bulk email to a contact for some days, or end the pause. Transactional email is still sent."""
    if days != "off" and not (days.isascii() and days.isdecimal() and 1 <= int(days) <= MAX_DAYS):
        raise typer.BadParameter(f"give a number of days from 1 to {MAX_DAYS}, or off", param_hint="DAYS")

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        person = await contacts.find_by_email(at.database, owner.id, email)
        until = None if days == "off" else at.clock.now() + int(days) * DAY
        await set_pause(at.database, at.clock, owner.id, person.email, until, actor=CONSOLE)

    run(work)
    done = "receives bulk email again" if days == "off" else f"receives no bulk email for {days} days"
    out.print(f"{email} {done}.", markup=False)


@app.command("tracking-consent")
def tracking_consent(
    email: Email,
    *,
    given: Annotated[bool, typer.Option("--given/--withdrawn", help="The contact's decision.", show_default=False)],
    wording: Annotated[
        str | None, typer.Option(help="The text that the contact agreed to; needed for consent.", show_default=False)
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The source of the decision, for example a form.", show_default=False)
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Record whether a contact consents to the recording of their opens and clicks."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await contacts.find_by_email(at.database, owner.id, email)
        now = at.clock.now()
        consent = make_consent(is_given=given, wording=wording, source=source or CONSOLE, now=now)
        change = contacts.ContactChange(tracking_consent=consent)
        await contacts.put(at.database, at.clock, owner.id, email, change, actor=CONSOLE)

    run(work)
    done = "may be recorded" if given else "are not recorded"
    out.print(f"Opens and clicks of {email} {done}.", markup=False)


@app.command("legal-basis")
def legal_basis(
    email: Email,
    basis: Annotated[
        str,
        typer.Argument(
            metavar="BASIS", help=f"{', '.join(LegalBasis)}, or {NO_BASIS} to remove it.", show_default=False
        ),
    ],
    *,
    source: Annotated[
        str | None, typer.Option(help="Evidence, for example the name of a contract.", show_default=False)
    ] = None,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Record why a contact may receive bulk email without a subscription, or remove that record."""

    async def work(at: Installation) -> None:
        owner = await tenants.find(at.database, tenant)
        await contacts.find_by_email(at.database, owner.id, email)
        change = contacts.ContactChange(legal_basis=legal_basis_record(basis, source, CONSOLE))
        await contacts.put(at.database, at.clock, owner.id, email, change)

    run(work)
    done = "has no legal basis any more" if basis == NO_BASIS else f"has the legal basis {basis}"
    out.print(f"{email} {done}.", markup=False)


@app.command()
def history(email: Email, tenant: Tenant = tenants.DEFAULT, as_json: Json = False) -> None:
    """Show a contact's history: lists, status changes and the events of their latest messages."""

    async def work(at: Installation) -> list[ContactHistoryEntry]:
        owner = await find_tenant(at, tenant)
        found = await personal_data.load_history(at.database, owner.id, email)
        return found if as_json else await _with_rendered_subjects(at, owner.id, found)

    found = run(work)
    if as_json:
        print_json([ContactHistoryEntryResponse.model_validate(each).to_dict() for each in found])
        return
    rows = ((clock_time(each.at), each.what, each.detail) for each in found)
    print_rows(("Time ({zone})!", "Event", "Details"), rows, nothing="No history.")


async def _with_rendered_subjects(
    at: Installation, tenant_id: int, found: list[ContactHistoryEntry]
) -> list[ContactHistoryEntry]:
    stored = {each.outbox_id: each.detail for each in found if each.outbox_id is not None}
    rendered = await rendered_subjects(at.database, at.clock, tenant_id, stored)
    return [replace(each, detail=rendered.get(each.outbox_id or "", each.detail)) for each in found]


app.command("import")(contact_files.import_command)
app.command("import-from")(contact_switch.import_from_command)
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
        ("Status source", person.status_source),
        ("Bounce", bounce),
        ("Language", person.locale),
        ("Time zone", person.timezone),
        ("Legal basis", _legal_basis(person)),
        ("Tracking", _tracking_consent(person)),
        ("Snoozed until", None if person.snoozed_until is None else clock_time(person.snoozed_until)),
    ):
        if value:
            made.add_row(name, value)
    return made


def _tracking_consent(person: Contact) -> str | None:
    consent = person.tracking_consent
    if consent is None:
        return None
    decision = f"consent to “{consent.wording}”" if consent.is_given else "no consent"
    return f"{decision}, {consent.source}, {clock_time(consent.at)}"


def _legal_basis(person: Contact) -> str | None:
    if person.legal_basis is None:
        return None
    when = clock_time(person.legal_basis_at)
    return f"{person.legal_basis}, recorded by {person.legal_basis_by} on {when}: {person.legal_basis_source}"
