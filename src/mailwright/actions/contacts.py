"""Contacts: status, history, personal data and erasure."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import Field

from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Line, Moment, Noun, OtherStatus, Table, time_of
from mailwright.actions.messages import MessageSummaryResponse
from mailwright.audience import contacts, erasure, personal_data
from mailwright.audience.contacts import ContactChange, ContactDetails
from mailwright.audience.erasure_record import ErasureRecord
from mailwright.audience.erasure_state import Erasure, ErasureState, find_erasure
from mailwright.audience.legal_basis import MAX_SOURCE_LENGTH, legal_basis_record
from mailwright.audience.snooze import snooze as set_pause
from mailwright.audience.status import ContactStatus, ContactStatusService
from mailwright.audience.tracking_consent import MAX_WORDING_LENGTH, TrackingConsent, make_consent
from mailwright.domain.clock import Instant
from mailwright.outbox.audit_log import API
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.schemas.paging import Page
from mailwright.schemas.suppressions import SuppressionResponse
from mailwright.sources.api.fields import RequestModel, RequestTime

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

    is_given: bool
    wording: Annotated[str, Field(max_length=MAX_WORDING_LENGTH)] | None = None
    source: Annotated[str, Field(max_length=MAX_SOURCE_LENGTH)] | None = None
    at: RequestTime | None = None

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


class SnoozeRequest(RequestModel):
    """Until when the contact receives no bulk email. Null ends the pause."""

    until: RequestTime | None


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


def contact_response(details: ContactDetails) -> ContactResponse:
    return combine(
        ContactResponse,
        details.contact,
        details,
        messages=details.messages,
        erasure=None if details.erasure is None else erasure_response(details.erasure),
    )


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


# An address can contain a slash before its @, so these routes match a whole path.
@noun.get("/{email:path}/data", command="data")
async def data(at: Context, email: str) -> dict[str, Any]:
    """Export all personal data of a contact, including their messages, for a data access request."""
    return await personal_data.export_personal_data(at.database, at.tenant_id, email)


@noun.get("/{email:path}/history")
async def history(at: Context, email: str) -> ContactHistoryResponse:
    """Show the history of a contact, latest first: subscriptions, status, and the events of the latest messages."""
    return ContactHistoryResponse(history=await personal_data.load_history(at.database, at.tenant_id, email))


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


@noun.post("/{email:path}/snooze", scope=MANAGE, audit="contact.snooze")
async def snooze(at: Context, email: str, wanted: SnoozeRequest) -> ContactResponse:
    """Pause bulk messages to a contact until a time, or end the pause. Transactional messages are still sent."""
    contact = await contacts.find_by_email(at.database, at.tenant_id, email)
    await set_pause(at.database, at.clock, at.tenant_id, contact.email, wanted.until, actor=at.actor)
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


@noun.get("/{email:path}")
async def show(at: Context, email: str) -> ContactResponse:
    """Show a contact's status, lists, suppressions and latest messages. The address is normalized first."""
    return contact_response(await contacts.load_details(at.database, at.tenant_id, email))
