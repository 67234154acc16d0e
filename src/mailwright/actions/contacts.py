"""Contacts: status, history, personal data and erasure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, model_validator

from mailwright.actions.context import Context
from mailwright.actions.declaration import (
    MANAGE,
    Argument,
    CsvFile,
    Details,
    JsonLinesFile,
    Line,
    Moment,
    Noun,
    Option,
    OtherStatus,
    Table,
    TwoLines,
    time_of,
)
from mailwright.actions.messages import MessageSummaryResponse, rendered_subjects, status_badge
from mailwright.audience import contacts, erasure, lists, personal_data, segments
from mailwright.audience import export as exporting
from mailwright.audience.contact_fields import as_text
from mailwright.audience.contacts import ContactChange
from mailwright.audience.erasure_record import ErasureRecord
from mailwright.audience.erasure_state import Erasure, ErasureState, find_erasure
from mailwright.audience.export import ExportSelection
from mailwright.audience.legal_basis import MAX_SOURCE_LENGTH, NO_BASIS, legal_basis_record
from mailwright.audience.snooze import MAX_DAYS
from mailwright.audience.snooze import snooze as set_pause
from mailwright.audience.status import ContactStatus, ContactStatusService
from mailwright.audience.suppressions import scope_text
from mailwright.audience.tracking_consent import MAX_WORDING_LENGTH, TrackingConsent, make_consent, set_consent
from mailwright.domain.clock import DAY, Instant
from mailwright.outbox.audit_log import API
from mailwright.outbox.pending_erasures import refuse_erasing
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.schemas.paging import Page
from mailwright.schemas.suppressions import SuppressionResponse
from mailwright.sources.api.fields import RequestModel, RequestTime
from mailwright.sources.api.validation import invalid

noun = Noun(
    "contact",
    "Contacts: import, export, status, history, erasure.",
    "/v1/contacts",
    parameters={"email": ("ADDRESS", "The email address.")},
)


class ContactPage(Page):
    status: Annotated[ContactStatus | None, Field(description="Only contacts with this status.")] = None


LegalBasisName = Literal[
    "consent", "contract", "legal_obligation", "vital_interests", "public_task", "legitimate_interest", "none"
]


class TrackingConsentRequest(RequestModel):
    """A contact's decision about the recording of their opens and clicks. Consent needs the wording they agreed to."""

    is_given: Annotated[bool, Field(description="The contact's decision."), Option("--given/--withdrawn")]
    wording: Annotated[
        str | None,
        Field(max_length=MAX_WORDING_LENGTH, description="The text that the contact agreed to; needed for consent."),
    ] = None
    source: Annotated[
        str | None,
        Field(max_length=MAX_SOURCE_LENGTH, description="The source of the decision, for example a form."),
    ] = None
    at: Annotated[
        RequestTime | None, Option(metavar="TIME"), Field(description="The time of the decision. Default: now.")
    ] = None

    def consent(self, actor: str, now: Instant) -> TrackingConsent:
        source = self.source or actor
        return make_consent(is_given=self.is_given, wording=self.wording, source=source, at=self.at, now=now)


class ContactRequest(RequestModel):
    """Fields of a contact. The value null removes an attribute, and `none` removes the legal basis."""

    name: Annotated[str, Field(max_length=200)] | None = None
    locale: Annotated[str, Field(max_length=35)] | None = None
    timezone: Annotated[str, Field(max_length=100)] | None = None
    attributes: dict[str, Any] | None = None
    tags: Annotated[list[str], Field(max_length=50)] | None = None
    legal_basis: LegalBasisName | None = None
    legal_basis_source: Annotated[str, Field(max_length=MAX_SOURCE_LENGTH)] | None = None
    tracking_consent: TrackingConsentRequest | None = None

    def change(self, actor: str, now: Instant) -> ContactChange:
        basis = legal_basis_record(self.legal_basis, self.legal_basis_source, actor)
        consent = None if self.tracking_consent is None else self.tracking_consent.consent(actor, now)
        return ContactChange(self.name, self.locale, self.timezone, self.attributes, self.tags, basis, consent)


class LegalBasisRequest(RequestModel):
    """Why a contact may receive bulk email without a subscription. `none` removes the record."""

    basis: Annotated[
        LegalBasisName,
        Field(description=f"{', '.join(get_args(LegalBasisName))[:-6]}, or {NO_BASIS} to remove it."),
        Argument("BASIS"),
    ]
    source: Annotated[
        str | None, Field(max_length=MAX_SOURCE_LENGTH, description="Evidence, for example the name of a contract.")
    ] = None


class SnoozeRequest(RequestModel):
    """How long the contact receives no bulk email: until a time, or for some days. Null ends the pause."""

    days: Annotated[
        int | None,
        Field(ge=1, le=MAX_DAYS, description="How many days to pause bulk email; off ends the pause."),
        Argument("DAYS|off", null="off"),
    ] = None
    until: Annotated[
        RequestTime | None, Option(metavar="TIME"), Field(description="Until when to pause bulk email.")
    ] = None

    @model_validator(mode="after")
    def _names_one_end(self) -> "SnoozeRequest":
        if len(self.model_fields_set) != 1:
            raise invalid("one_end", "needs either a number of days or a time")
        return self

    def end(self, now: Instant) -> Instant | None:
        return self.until if self.days is None else now + self.days * DAY


class ExportQuery(RequestModel):
    format: Annotated[Literal["csv", "jsonl"], Field(description="CSV or JSON lines.")] = "csv"
    list_key: Annotated[str | None, Field(max_length=63, description="Only subscribers of this list.")] = None
    segment_key: Annotated[str | None, Field(max_length=63, description="Only contacts in this segment.")] = None


class TrackingConsentResponse(ResponseModel):
    is_given: bool
    wording: str | None
    source: str
    at: Time


class ContactSummaryResponse(ResponseModel):
    """A contact and its status."""

    contact_id: str
    email: str
    name: str | None
    status: str
    status_updated_at: Time | None
    status_source: str | None
    bounce_type: str | None
    bounce_subtype: str | None
    locale: str | None
    timezone: str | None
    attributes: dict[str, Any]
    legal_basis: str | None
    legal_basis_source: str | None
    legal_basis_by: str | None
    legal_basis_at: Time | None
    tracking_consent: TrackingConsentResponse | None
    snoozed_until: Time | None
    created_at: Time


class SubscriptionResponse(ResponseModel):
    list_key: str
    subscribed_at: Time | None
    unsubscribed_at: Time | None
    is_pending: bool


class ErasureResponse(ResponseModel):
    """The state of an erasure.

    `erasing`: nothing is sent to the address any more, and its data is deleted as soon as the message `waitsFor` has a
    result, at the latest at `expectedAt`. `erased`: the data is deleted.
    """

    email: str
    state: ErasureState
    requested_at: Time
    erased_at: Time | None
    reason: str | None
    waits_for: str | None
    expected_at: Time | None
    erased_messages: Annotated[int | None, Field(description="Messages whose content this request has erased.")] = None


class ContactResponse(ContactSummaryResponse):
    """A contact with its subscriptions, suppressions and latest messages. `erasure` is its unfinished erasure."""

    lists: list[SubscriptionResponse]
    tags: list[str]
    suppressions: list[SuppressionResponse]
    messages: list[MessageSummaryResponse]
    erasure: ErasureResponse | None


class ContactHistoryEntryResponse(ResponseModel):
    """`isMachine`: a program opened the email, clicked its link or replied to it."""

    at: Time
    what: str
    detail: Any
    is_machine: bool


class ContactHistoryResponse(ResponseModel):
    history: list[ContactHistoryEntryResponse]


class ContactListResponse(ResponseModel):
    contacts: list[ContactSummaryResponse]
    next_cursor: str | None


def _legal_basis(found: ContactResponse) -> tuple[Any, ...] | None:
    if found.legal_basis is None:
        return None
    when = Moment(found.legal_basis_at)
    return f"{found.legal_basis}, recorded by {found.legal_basis_by} on ", when, f": {found.legal_basis_source}"


def _tracking_consent(found: ContactResponse) -> tuple[Any, ...] | None:
    if (consent := found.tracking_consent) is None:
        return None
    decision = f"consent to “{consent.wording}”" if consent.is_given else "no consent"
    return f"{decision}, {consent.source}, ", Moment(consent.at)


def _membership(each: SubscriptionResponse) -> str | tuple[Any, ...]:
    """Return the status of a subscription. The time of a pending one is when the contact was asked."""
    if each.is_pending:
        return ("asked ", Moment(each.subscribed_at), "; not confirmed") if each.subscribed_at else "not confirmed"
    return "subscribed" if each.unsubscribed_at is None else "unsubscribed"


_HEADER: Final = Details(
    {
        "Address": "email",
        "Name": "name",
        "Id": "contact_id",
        "Status": "status",
        "Since": lambda found: found.status_updated_at and Moment(found.status_updated_at),
        "Status source": "status_source",
        "Bounce": lambda found: " / ".join(filter(None, (found.bounce_type, found.bounce_subtype))) or None,
        "Language": "locale",
        "Time zone": "timezone",
        "Legal basis": _legal_basis,
        "Tracking": _tracking_consent,
        "Snoozed until": lambda found: found.snoozed_until and Moment(found.snoozed_until),
    }
)
_LISTS: Final = Table(
    "lists",
    {
        "List!": "list_key",
        "Status!": _membership,
        "Subscribed ({zone})!": lambda each: "" if each.is_pending else Moment(each.subscribed_at),
        "Unsubscribed ({zone})!": lambda each: "" if each.is_pending else Moment(each.unsubscribed_at),
    },
    nothing="Not subscribed to any list.",
)
_SUPPRESSIONS: Final = Table(
    "suppressions",
    {
        "Suppressed!": lambda entry: scope_text(entry.list_key),
        "Reason": "reason",
        "Source": "source",
        "Since ({zone})!": time_of("created_at"),
    },
    nothing="Not suppressed.",
)
_MESSAGES: Final = Table(
    "messages",
    {
        "Message and time ({zone})!": lambda each: TwoLines(each.outbox_id, Moment(each.created_at)),
        "Status!": lambda each: status_badge(each.shown_status),
        "Subject": "subject",
    },
    nothing="No messages to this address yet.",
)


def _shown(found: ContactResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield _HEADER
    if found.erasure is not None:
        yield from erasure_lines(found.erasure, given)
    yield Table(
        "attributes",
        {"Attribute!": lambda name: name, "Value": lambda name: as_text(found.attributes[name])},
        nothing="No attributes.",
    )
    if found.tags:
        yield f"Tags: {', '.join(found.tags)}"
    yield from (_LISTS, _SUPPRESSIONS, _MESSAGES)


def _snoozed(_found: ContactResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    days, until = given["days"], given["until"]
    pause = f"no bulk email until {until}" if days is None else f"no bulk email for {days} days"
    yield f"{given['email']} receives {'bulk email again' if days == 'off' else pause}."


def _consent_recorded(_found: ContactResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    yield f"Opens and clicks of {given['email']} {'may be' if given['is_given'] else 'are not'} recorded."


def _basis_recorded(_found: ContactResponse, given: Mapping[str, Any]) -> Iterator[Line]:
    basis = given["basis"]
    yield f"{given['email']} has {'no legal basis any more' if basis == NO_BASIS else f'the legal basis {basis}'}."


def erasure_response(found: Erasure, **fields: Any) -> ErasureResponse:
    reason = None if found.is_finished else f"The message {found.waits_for} has no result yet."
    return combine(ErasureResponse, found, reason=reason, **fields)


def erasure_lines(found: ErasureResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    if found.state is ErasureState.ERASED:
        yield (
            f"Contact erased. Messages whose content was erased: {found.erased_messages}. A suppression for bulk email "
            "remains."
        )
        return
    message = "A message" if found.waits_for is None else f"The message {found.waits_for}"
    latest = () if found.expected_at is None else (", at the latest ", Moment(found.expected_at, names_zone=True))
    yield (
        f"Erasing: nothing is sent to this contact any more. {message} has no result yet. A worker deletes the data "
        "when it has one",
        *latest,
        ".",
    )


@noun.get(
    command="list",
    command_defaults={"limit": 100},
    shown=Table(
        "contacts",
        {"Address": "email", "Name": "name", "Status!": "status", "Since ({zone})!": time_of("status_updated_at")},
        nothing="No contacts.",
    ),
)
async def list_contacts(at: Context, page: ContactPage) -> ContactListResponse:
    """List the contacts, latest first."""
    found = await contacts.list_page(
        at.database.reader, at.tenant_id, limit=page.limit, status=page.status, before=page.before("contact")
    )
    return ContactListResponse(contacts=found, next_cursor=page.next_cursor("contact", [each.id for each in found]))


@noun.get("/export")
async def export(at: Context, wanted: ExportQuery) -> CsvFile | JsonLinesFile:
    """Export contacts with lists, tags and attributes, by address. The CSV can be imported unchanged."""
    if wanted.list_key is not None:
        async with at.database.read() as tx:
            await lists.require(tx, at.tenant_id, wanted.list_key)
    found = None if wanted.segment_key is None else await segments.find(at.database, at.tenant_id, wanted.segment_key)
    selection = ExportSelection(at.tenant_id, wanted.list_key, None if found is None else found.filter)
    source, now = at.database.reader, at.clock.now()
    if wanted.format == "jsonl":
        return JsonLinesFile(exporting.export_json_lines(source, selection, now))
    return CsvFile(exporting.export_csv(source, selection, now))


# An address can contain a slash before its @, so these routes match a whole path.
@noun.get("/{email:path}/data", command="data")
async def data(at: Context, email: str) -> dict[str, Any]:
    """Export all personal data of a contact, including their messages, for a data access request."""
    return await personal_data.export_personal_data(at.database, at.tenant_id, email)


@noun.get(
    "/{email:path}/history",
    command="history",
    shown=Table(
        "history",
        {"Time ({zone})!": time_of("at"), "Event": "what", "Details": "detail"},
        nothing="No history.",
    ),
)
async def history(at: Context, email: str) -> ContactHistoryResponse:
    """Show the history of a contact, latest first: subscriptions, status, and the events of the latest messages."""
    found = await personal_data.load_history(at.database, at.tenant_id, email)
    stored = {each.outbox_id: each.detail for each in found if each.outbox_id is not None}
    subjects = await rendered_subjects(at.database, at.clock, at.tenant_id, stored)
    entries = [replace(each, detail=subjects.get(each.outbox_id or "", each.detail)) for each in found]
    return ContactHistoryResponse.model_validate({"history": entries})


@noun.post(
    "/{email:path}/activate",
    scope=MANAGE,
    audit="contact.activate",
    command="activate",
    shown="{email} is active again.",
)
async def activate(at: Context, email: str) -> ContactResponse:
    """Activate a contact who bounced, complained or unsubscribed from all bulk messages.

    Lists that the contact unsubscribed from stay unsubscribed.
    """
    await ContactStatusService(at.database, at.clock).activate(at.tenant_id, email, source=at.source, actor=at.actor)
    return await show(at, email)


@noun.post("/{email:path}/snooze", scope=MANAGE, audit="contact.snooze", command="snooze", shown=_snoozed)
async def snooze(at: Context, email: str, wanted: SnoozeRequest) -> ContactResponse:
    """Pause bulk messages to a contact for a time, or end the pause. Transactional messages are still sent."""
    contact = await contacts.find_by_email(at.database, at.tenant_id, email)
    until = wanted.end(at.clock.now())
    await set_pause(at.database, at.clock, at.tenant_id, contact.email, until, actor=at.actor)
    return await show(at, email)


@noun.put(
    "/{email:path}/tracking-consent",
    scope=MANAGE,
    audit="contact.tracking_consent",
    command="tracking-consent",
    shown=_consent_recorded,
)
async def tracking_consent(at: Context, email: str, wanted: TrackingConsentRequest) -> ContactResponse:
    """Record whether a contact consents to the recording of their opens and clicks."""
    contact, now = await contacts.find_by_email(at.database, at.tenant_id, email), at.clock.now()
    async with at.database.write() as tx:
        await refuse_erasing(tx, at.tenant_id, [contact.email])
        await set_consent(tx, at.tenant_id, contact.email, wanted.consent(at.actor, now), now, actor=at.actor)
    return await show(at, email)


@noun.put(
    "/{email:path}/legal-basis",
    scope=MANAGE,
    audit="contact.legal_basis",
    command="legal-basis",
    shown=_basis_recorded,
)
async def legal_basis(at: Context, email: str, wanted: LegalBasisRequest) -> ContactResponse:
    """Record why a contact may receive bulk email without a subscription, or remove that record."""
    contact = await contacts.find_by_email(at.database, at.tenant_id, email)
    change = ContactChange(legal_basis=legal_basis_record(wanted.basis, wanted.source, at.actor))
    await contacts.put(at.database, at.clock, at.tenant_id, contact.email, change)
    return await show(at, email)


@noun.get("/{email:path}/erasure")
async def show_erasure(at: Context, email: str) -> ErasureResponse:
    """Show whether the data of an address is being erased or was erased."""
    return erasure_response(await find_erasure(at.database, at.tenant_id, email))


# The audit log records only a change of the legal basis, because programs write all their contacts again and again.
@noun.put("/{email:path}", scope=MANAGE, audit="contact.legal_basis")
async def put(at: Context, email: str, wanted: ContactRequest) -> ContactResponse:
    """Create or change a contact. Fields that are left out keep their value; null removes an attribute.

    Status, subscriptions and suppressions do not change.
    """
    await contacts.put(at.database, at.clock, at.tenant_id, email, wanted.change(API, at.clock.now()))
    return await show(at, email)


@noun.delete(
    "/{email:path}",
    scope=MANAGE,
    audit="contact.erase",
    other_status=OtherStatus(HTTPStatus.ACCEPTED, lambda found: found.state is ErasureState.ERASING),
    command="erase",
    question="Erase {email}? This cannot be undone.",
    shown=erasure_lines,
)
async def erase(at: Context, email: str) -> ErasureResponse:
    """Erase the personal data of a contact, including in sent messages.

    Nothing is sent to the address from now on. While a message to it has no result, the response is 202 with the state
    `erasing`, and a worker deletes the data later. The address stays suppressed for bulk messages, so that a later
    import does not send to it.
    """
    record = ErasureRecord(at.settings.state, at.database.url) if at.engine is None else at.engine.erasure_record
    result = await erasure.erase(
        at.database,
        at.clock,
        at.tenant_id,
        email,
        actor=at.actor,
        imports_folder=at.settings.imports,
        record=record,
    )
    return erasure_response(result, erased_messages=result.messages if result.is_finished else None)


@noun.get("/{email:path}", command="show", shown=_shown)
async def show(at: Context, email: str) -> ContactResponse:
    """Show a contact's status, lists, suppressions and latest messages. The address is normalized first."""
    details = await contacts.load_details(at.database, at.tenant_id, email)
    stored = {each.outbox_id: each.subject for each in details.messages}
    subjects = await rendered_subjects(at.database, at.clock, at.tenant_id, stored)
    return combine(
        ContactResponse,
        details.contact,
        details,
        messages=[replace(each, subject=subjects[each.outbox_id]) for each in details.messages],
        erasure=None if details.erasure is None else erasure_response(details.erasure),
    )
