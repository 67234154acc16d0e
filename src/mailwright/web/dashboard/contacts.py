"""Contact pages: search, details, subscriptions, export and erasure."""

import contextlib
from collections.abc import Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from mailwright.app.wiring import Engine
from mailwright.audience import contacts, erasure, lists, personal_data, segments
from mailwright.audience import export as exporting
from mailwright.audience.contact_events import list_latest
from mailwright.audience.contacts import ContactChange
from mailwright.audience.erasure_state import find_erasure
from mailwright.audience.export import ExportSelection
from mailwright.audience.legal_basis import NO_BASIS, legal_basis_record
from mailwright.audience.lists import GENERAL
from mailwright.audience.search import (
    SCAN_LIMIT,
    ContactOrder,
    ContactQuery,
    count_contacts,
    list_tags,
    search_contacts,
)
from mailwright.audience.snooze import snooze
from mailwright.audience.status import ContactStatus, ContactStatusService
from mailwright.audience.suppressions import suppressed_among
from mailwright.audience.tracking_consent import TrackingConsent
from mailwright.domain.clock import DAY, utc_day_text
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound
from mailwright.domain.states import EventType
from mailwright.domain.translation import gettext, lower_first
from mailwright.pipeline.rerender import render_subjects
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.sequences.explain import RunExplanation
from mailwright.texts.sequences import run_text, step_text
from mailwright.texts.times import count_text
from mailwright.web.dashboard.contact_events import property_texts
from mailwright.web.dashboard.email_parts import download
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.labels import legal_basis_options
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/contacts", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 50
# Contacts beyond this number are not counted.
MAX_COUNTED: Final = 100_000
EVENTS: Final = 10
HISTORY: Final = 60
_HISTORY_MAILS: Final = 20
# The runs through each sequence that the page shows, the newest.
_RUNS: Final = 20
# Internal events of a message, shown only on its own page.
_INTERNAL_EVENTS: Final = frozenset({EventType.RECEIVED, EventType.VALIDATED, EventType.SENT_ATTEMPT})


@router.get("")
async def list_contacts(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    *,
    q: str = "",
    status: str = "",
    list: str = "",  # noqa: A002 - the name in the URL
    tag: str = "",
    sort: str = "",
    cursor: str = "",
) -> Response:
    known = status if status in {each.value for each in ContactStatus} else ""
    criteria = ContactQuery(q.strip()[:254], known, list.strip()[:63], tag.strip()[:64])
    after, order = decode_cursor("contact", cursor)[0] if cursor else None, _order_of(sort)
    found = await search_contacts(
        engine.database.reader, visitor.tenant_id, criteria, limit=PAGE, after=after, order=order
    )
    async with engine.database.read() as tx:
        suppressed = await suppressed_among(tx, visitor.tenant_id, [each.email for each in found.contacts], GENERAL)
    values: dict[str, Any] = {
        "criteria": criteria,
        "order": order,
        "total": await count_contacts(engine.database.reader, visitor.tenant_id, most=MAX_COUNTED + 1),
        "most": MAX_COUNTED,
        "suppressed": suppressed,
        "found": found.contacts,
        "following": encode_cursor("contact", found.next_key) if found.next_key is not None else None,
        "is_cut": found.is_cut,
        "stretch": SCAN_LIMIT,
        "lists": await lists.list_all(engine.database, visitor.tenant_id),
        "tags": await list_tags(engine.database.reader, visitor.tenant_id),
        "statuses": [each.value for each in ContactStatus],
    }
    return await page(request, visitor, "audience/contacts.html", **values)


@router.get("/new")
async def show_form(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    return await _form(request, engine, visitor, Fields(), Errors())


@router.post("/new")
async def add(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Add a contact. A list with double opt-in sends a confirmation email first."""
    form = await read_fields(request)
    try:
        await _put(engine, visitor, form["email"], form)
        if form["list"]:
            await (await engine.double_opt_in()).subscribe(
                visitor.tenant_id, form["email"], form["list"], source=visitor.actor
            )
    except InvalidInput as error:
        return await _form(request, engine, visitor, form, field_errors(error))
    return redirect(request, to_contact(form["email"]), gettext("Contact added."))


@router.get("/export.csv")
async def export(
    engine: EngineDep,
    visitor: ViewerDep,
    list: str = "",  # noqa: A002 - the name in the URL
    segment: str = "",
) -> Response:
    """Export the same CSV as the API, which can be imported again."""
    if list:
        async with engine.database.read() as tx:
            await lists.require(tx, visitor.tenant_id, list)
    filter_ = (await segments.find(engine.database, visitor.tenant_id, segment)).filter if segment else None
    rows = exporting.export_csv(
        engine.database.reader, ExportSelection(visitor.tenant_id, list or None, filter_), engine.clock.now()
    )
    headers = {"Content-Disposition": f'attachment; filename="{list or segment or "contacts"}.csv"'}
    return StreamingResponse(rows, media_type="text/csv; charset=utf-8", headers=headers)


# The local part of an address may contain a slash.
@router.get("/{email:path}/data.json")
async def download_data(engine: EngineDep, visitor: ViewerDep, email: str) -> Response:
    """Export all personal data of a contact, including their emails."""
    known = await personal_data.export_personal_data(engine.database, visitor.tenant_id, email)
    return download(orjson.dumps(known, option=orjson.OPT_INDENT_2), f"{email}.json", "application/json")


@router.post("/{email:path}/edit")
async def edit(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    await contacts.find_by_email(engine.database, visitor.tenant_id, email)
    form = await read_fields(request)
    try:
        await _put(engine, visitor, email, form)
    except InvalidInput as error:
        return await _page(request, engine, visitor, email, form=form, errors=field_errors(error))
    return redirect(request, to_contact(email), gettext("Contact saved."))


@router.post("/{email:path}/subscribe")
async def subscribe(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    form = await read_fields(request)
    await lists.find(engine.database, visitor.tenant_id, form["list"])
    must_confirm = False
    if form["confirmed"]:
        contact_status = ContactStatusService(engine.database, engine.clock)
        await contact_status.subscribe(
            visitor.tenant_id, email, form["list"], source=visitor.actor, actor=visitor.actor
        )
    else:
        double_opt_in, actor = await engine.double_opt_in(), visitor.actor
        must_confirm = await double_opt_in.subscribe(visitor.tenant_id, email, form["list"], source=actor, actor=actor)
    sent = gettext("A confirmation email was sent. The contact is subscribed after confirming.")
    return redirect(request, to_contact(email), sent if must_confirm else gettext("Added to the list."))


@router.post("/{email:path}/unsubscribe")
async def unsubscribe(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    form = await read_fields(request)
    contact_status = ContactStatusService(engine.database, engine.clock)
    await contact_status.unsubscribe(visitor.tenant_id, email, form["list"], source=visitor.actor, actor=visitor.actor)
    return redirect(request, to_contact(email), gettext("Contact unsubscribed from the list."))


@router.post("/{email:path}/legal-basis")
async def record_legal_basis(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    """Record why the contact may receive bulk email without a subscription, or remove that record."""
    await contacts.find_by_email(engine.database, visitor.tenant_id, email)
    form = await read_fields(request)
    try:
        record = legal_basis_record(form["legalBasis"], form["legalBasisSource"] or None, visitor.actor)
        change = ContactChange(legal_basis=record)
        await contacts.put(engine.database, engine.clock, visitor.tenant_id, email, change)
    except InvalidInput as error:
        return await _page(request, engine, visitor, email, errors=field_errors(error))
    return redirect(request, to_contact(email), gettext("Legal basis saved."))


@router.post("/{email:path}/withdraw-tracking")
async def withdraw_tracking(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    """Withdraw tracking consent on behalf of a contact who asked for it, for example by phone."""
    await contacts.find_by_email(engine.database, visitor.tenant_id, email)
    consent = TrackingConsent(is_given=False, wording=None, source=visitor.actor)
    change = ContactChange(tracking_consent=consent)
    await contacts.put(engine.database, engine.clock, visitor.tenant_id, email, change, actor=visitor.actor)
    return redirect(request, to_contact(email), gettext("Consent withdrawn. Opens and clicks are no longer recorded."))


@router.post("/{email:path}/snooze")
async def change_snooze(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    """Pause bulk email on behalf of a contact who asked for it, or end the pause."""
    contact = await contacts.find_by_email(engine.database, visitor.tenant_id, email)
    days = (await read_fields(request)).number("days") or 0
    until = engine.clock.now() + days * DAY if days else None
    await snooze(engine.database, engine.clock, visitor.tenant_id, contact.email, until, actor=visitor.actor)
    words = gettext("Bulk email paused.") if days else gettext("The pause has ended.")
    return redirect(request, to_contact(email), words)


@router.post("/{email:path}/reactivate")
async def reactivate(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    contact_status = ContactStatusService(engine.database, engine.clock)
    await contact_status.activate(visitor.tenant_id, email, source=visitor.actor, actor=visitor.actor)
    return redirect(
        request, to_contact(email), gettext("Contact reactivated. Lists they unsubscribed from stay unsubscribed.")
    )


@router.post("/{email:path}/erase")
async def erase(request: Request, engine: EngineDep, visitor: EditorDep, email: str) -> Response:
    """Erase a contact and cancel their queued emails. While an email has no result, the page shows the erasure."""
    form = await read_fields(request)
    if form["address"].lower() != email.lower():
        error = InvalidInput(gettext("Enter the address of this contact."), field="address")
        return await _page(request, engine, visitor, email, errors=field_errors(error))
    result = await erasure.erase(
        engine.database,
        engine.clock,
        visitor.tenant_id,
        email,
        actor=visitor.actor,
        imports_folder=engine.imports_folder,
        record=engine.erasure_record,
    )
    if not result.is_finished:
        words = gettext(
            "Nothing is sent to this contact any more. Their data is deleted when the last email has a result."
        )
        return redirect(request, to_contact(email), words)
    return redirect(
        request,
        "/contacts",
        gettext("Contact erased, including the content of {emptied}.", emptied=count_text(result.messages, "email")),
    )


@router.get("/{email:path}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, email: str) -> Response:
    return await _page(request, engine, visitor, email)


async def _missing_text(engine: Engine, visitor: Visitor, email: str) -> str:
    try:
        erased = await find_erasure(engine.database, visitor.tenant_id, email)
    except MailwrightError:
        return gettext("There is no contact with this address.")
    return gettext("The data of this contact was erased on {day}.", day=utc_day_text(erased.requested_at))


def to_contact(email: str) -> str:
    return f"/contacts/{quote(email.strip(), safe='@')}"


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    email: str,
    *,
    form: Fields | None = None,
    errors: Errors | None = None,
) -> Response:
    try:
        known = await contacts.load_details(engine.database, visitor.tenant_id, email)
    except NotFound as error:
        raise NotFound(await _missing_text(engine, visitor, email)) from error
    history = await personal_data.load_history(engine.database, visitor.tenant_id, email, limit=_HISTORY_MAILS)
    events = await list_latest(engine.database, visitor.tenant_id, limit=EVENTS, email=known.contact.email)
    # The history reaches further back than the list of recent emails.
    stored = {each.outbox_id: each.detail for each in history if each.outbox_id is not None}
    stored |= {each.outbox_id: each.subject for each in known.messages}
    subjects = await render_subjects(engine.database, stored, tenant_id=visitor.tenant_id, at=engine.clock.now())
    on = {membership.list_key for membership in known.lists if membership.unsubscribed_at is None}
    every = await lists.list_all(engine.database, visitor.tenant_id)
    runs: list[RunExplanation] = []
    others: list[RunExplanation] = []
    if known.erasure is None:  # An erasure has ended all runs.
        runs = await engine.sequences.explanations.of_person(visitor.tenant_id, email)
        others = await engine.sequences.explanations.of_others(visitor.tenant_id, email)
    values: dict[str, Any] = {
        "details": known,
        "runs": _by_sequence(runs),
        "run_text": partial(run_text, now=engine.clock.now(), zone=visitor.zone),
        "other_runs": others,
        "step_text": partial(step_text, zone=visitor.zone),
        "contact": known.contact,
        "history": [each for each in history if each.event_type not in _INTERNAL_EVENTS][:HISTORY],
        "subjects": subjects,
        "events": [(each, property_texts(each)) for each in events],
        "other_lists": [each for each in every if each.list_key not in on],
        "names": {each.list_key: each.name for each in every},
        "legal_basis": lower_first(dict(legal_basis_options()).get(known.contact.legal_basis or "", "")),
        "legal_bases": [(NO_BASIS, gettext("None")), *legal_basis_options()],
        "to": to_contact(known.contact.email),
        "form": form if form is not None else _fields_of(known),
        "errors": errors or Errors(),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    return await page(request, visitor, "audience/contact.html", status=status, **values)


def _by_sequence(runs: Iterable[RunExplanation]) -> list[list[RunExplanation]]:
    """Return the newest runs of each sequence, the sequence with the latest one first."""
    found: dict[str, list[RunExplanation]] = {}
    for run in runs:
        found.setdefault(run.sequence_id, []).append(run)
    return [each[:_RUNS] for each in found.values()]


async def _form(request: Request, engine: Engine, visitor: Visitor, form: Fields, errors: Errors) -> Response:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if errors else HTTPStatus.OK
    every = await lists.list_all(engine.database, visitor.tenant_id)
    options = [("", gettext("None")), *((each.list_key, each.name) for each in every)]
    values: dict[str, Any] = {"form": form, "errors": errors, "lists": every, "list_options": options}
    return await page(request, visitor, "audience/contact_new.html", status=status, **values)


def _order_of(text: str) -> ContactOrder:
    try:
        return ContactOrder(text)
    except ValueError:
        return ContactOrder.NEWEST


async def _put(engine: Engine, visitor: Visitor, email: str, form: Fields) -> None:
    given = attributes_of(form["attributes"])
    known: Mapping[str, Any] = {}
    # An unknown address becomes a new contact.
    with contextlib.suppress(NotFound):
        known = (await contacts.find_by_email(engine.database, visitor.tenant_id, email)).attributes
    taken_away = dict.fromkeys(known.keys() - given.keys())
    # Unchanged attributes keep their type: a number set through the API stays a number.
    same = {name: known[name] for name, text in given.items() if name in known and _text(known[name]) == text}
    change = ContactChange(
        form["name"],
        form["locale"],
        form["timezone"],
        {**given, **taken_away, **same},
        [tag.strip() for tag in form["tags"].split(",") if tag.strip()],
    )
    await contacts.put(engine.database, engine.clock, visitor.tenant_id, email, change, actor=visitor.actor)


def attributes_of(text: str) -> dict[str, str]:
    """Parse lines of `city: Lisbon`."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, sign, value = line.partition(":")
        if not sign or not name.strip():
            raise InvalidInput(
                gettext("Line {number} must have the form city: Lisbon.", number=number), field="attributes"
            )
        if value.strip():
            found[name.strip()] = value.strip()
    return found


def _fields_of(known: contacts.ContactDetails) -> Fields:
    person = known.contact
    lines = [f"{name}: {_text(value)}" for name, value in person.attributes.items()]
    return Fields(
        {
            "name": person.name or "",
            "locale": person.locale or "",
            "timezone": person.timezone or "",
            "tags": ", ".join(known.tags),
            "attributes": "\n".join(lines),
        }
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
