"""Models and texts of contacts who are excluded from an audience."""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import Field

from mailwright.audience.csv_cells import csv_parts
from mailwright.audience.eligibility import Exclusion
from mailwright.audience.exclusions import ExcludedContact
from mailwright.audience.objections import proof_in
from mailwright.audience.suppressions import scope_text
from mailwright.domain.translation import lazy_gettext
from mailwright.schemas.base import ResponseModel
from mailwright.schemas.paging import Page
from mailwright.sources.api.fields import RequestModel

EXCLUSION_TEXT: Final[Mapping[Exclusion, str]] = {
    Exclusion.BOUNCED: lazy_gettext("the address bounced"),
    Exclusion.UNSUBSCRIBED: lazy_gettext("unsubscribed"),
    Exclusion.SUPPRESSED: lazy_gettext("suppressed"),
    Exclusion.UNCONFIRMED: lazy_gettext("subscription not confirmed"),
    Exclusion.NOT_SUBSCRIBED: lazy_gettext("no subscription and no other legal basis"),
}


class ExclusionQuery(RequestModel):
    reason: Annotated[Exclusion | None, Field(description="Only contacts who are excluded for this reason.")] = None


class ExclusionPage(ExclusionQuery, Page):
    """A page of excluded contacts."""


class ExclusionCountResponse(ResponseModel):
    """How many contacts are excluded from the audience for one reason."""

    reason: str
    count: int
    explanation: str


class ExcludedContactResponse(ResponseModel):
    email: str
    reason: str
    explanation: str


class ExcludedContactListResponse(ResponseModel):
    """Contacts in the audience who may not receive the campaign."""

    contacts: list[ExcludedContactResponse]
    not_on_lists: Annotated[
        int, Field(description="Contacts who never were on the lists of the campaign, and so are not in its audience.")
    ]
    next_cursor: str | None


def exclusion_count_responses(counts: Mapping[Exclusion, int]) -> list[ExclusionCountResponse]:
    return [
        ExclusionCountResponse(reason=reason, count=count, explanation=EXCLUSION_TEXT[reason])
        for reason, count in counts.items()
    ]


def excluded_contact_response(contact: ExcludedContact) -> ExcludedContactResponse:
    return ExcludedContactResponse(email=contact.email, reason=contact.reason, explanation=exclusion_text(contact))


def exclusion_text(contact: ExcludedContact) -> str:
    """Explain why a contact is excluded: `suppressed for all email since 2027-01-15: complaint`."""
    entry = contact.suppression
    if entry is not None and (proof := proof_in(entry.source)):
        return lazy_gettext("said no in an imported file ({proof})", proof=proof)
    if entry is None or contact.reason is Exclusion.UNSUBSCRIBED:
        return EXCLUSION_TEXT[contact.reason]
    day = datetime.fromtimestamp(entry.created_at // 1000, UTC).date()
    return lazy_gettext(
        "{exclusion} for {scope} since {day}: {reason}",
        exclusion=EXCLUSION_TEXT[contact.reason],
        scope=scope_text(entry.list_key),
        day=day,
        reason=entry.reason,
    )


def exclusion_sentence(counts: Mapping[Exclusion, int]) -> str:
    """Return `Excluded: 3 (2 unsubscribed, 1 suppressed).`, or an empty string if nobody is excluded."""
    parts = ", ".join(f"{count:,} {EXCLUSION_TEXT[reason]}" for reason, count in counts.items())
    return f"Excluded: {sum(counts.values()):,} ({parts})." if parts else ""


def excluded_csv(contacts: AsyncIterable[ExcludedContact]) -> AsyncIterator[str]:
    rows = ((each.email, each.reason.value, exclusion_text(each)) async for each in contacts)
    return csv_parts(("email", "reason", "explanation"), rows)
