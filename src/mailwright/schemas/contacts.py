"""Models of contacts."""

from typing import Annotated, Any, Literal

from pydantic import Field

from mailwright.audience.contacts import ContactChange, ContactDetails
from mailwright.audience.erasure_state import Erasure, ErasureState
from mailwright.audience.legal_basis import MAX_SOURCE_LENGTH, LegalBasisRecord, check_source, parse_legal_basis
from mailwright.audience.status import ContactStatus
from mailwright.audience.tracking_consent import MAX_WORDING_LENGTH, TrackingConsent, make_consent
from mailwright.domain.clock import Instant
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.schemas.messages import MessageSummaryResponse, message_summary_response
from mailwright.schemas.paging import Page
from mailwright.schemas.suppressions import SuppressionResponse
from mailwright.sources.api.fields import RequestModel, RequestTime


class ContactPage(Page):
    status: Annotated[ContactStatus | None, Field(description="Only contacts with this status.")] = None


class ExportQuery(RequestModel):
    format: Annotated[Literal["csv", "jsonl"], Field(description="CSV or JSON lines.")] = "csv"
    list_key: Annotated[str | None, Field(max_length=63, description="Only subscribers of this list.")] = None
    segment_key: Annotated[str | None, Field(max_length=63, description="Only contacts in this segment.")] = None


LegalBasisName = Literal[
    "consent", "contract", "legal_obligation", "vital_interests", "public_task", "legitimate_interest", "none"
]


def legal_basis_record(name: str | None, source: str | None, actor: str) -> LegalBasisRecord | None:
    """Return the legal basis to record, where `none` removes the stored one. If `name` is None, change nothing."""
    if name is None:
        return None
    return LegalBasisRecord(parse_legal_basis(name), check_source(source or actor), actor)


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
    return extend(
        ContactResponse,
        ContactSummaryResponse.model_validate(details.contact),
        lists=details.lists,
        tags=details.tags,
        suppressions=details.suppressions,
        messages=[message_summary_response(message) for message in details.messages],
        erasure=None if details.erasure is None else erasure_response(details.erasure),
    )


def erasure_response(erasure: Erasure) -> ErasureResponse:
    return ErasureResponse(
        email=erasure.email,
        state=erasure.state,
        requested_at=erasure.requested_at,
        erased_at=erasure.erased_at,
        reason=None if erasure.is_finished else f"The message {erasure.waits_for} has no result yet.",
        waits_for=erasure.waits_for,
        expected_at=erasure.expected_at,
    )
