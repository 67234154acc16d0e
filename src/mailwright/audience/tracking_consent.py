"""A contact's consent to the recording of their opens and clicks, with the wording that they saw."""

from typing import Any, Final

from sqlalchemy import ColumnElement, select, update

from mailwright.audience.contact_fields import InvalidContact
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.tracking import TrackingMode, parse_mode, strictest
from mailwright.outbox import audit_log
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, lists, subscriptions, tenants

MAX_WORDING_LENGTH: Final = 1_000
MAX_SOURCE_LENGTH: Final = 200
REFUSED: Final = "no"
CONSENT_COLUMNS: Final = (
    "consents_to_tracking",
    "tracking_consent_wording",
    "tracking_consent_source",
    "tracking_consent_at",
)
SIGN_UP_FORM: Final = "sign-up form"
_REFUSALS: Final = frozenset([REFUSED, "false", "0", "нет", "não", "nao", "withdrawn"])
_BARE_CONSENTS: Final = frozenset(["yes", "true", "1", "да", "sim", "x", "y"])


@dataclass(frozen=True, slots=True)
class TrackingConsent:
    """A contact's decision. `source` is the place where they made it. `at` is its time; None means now."""

    is_given: bool
    wording: str | None
    source: str
    at: Instant | None = None

    def columns(self, now: Instant) -> dict[str, Any]:
        """Return the new values of the columns of `contacts`."""
        return {
            "consents_to_tracking": self.is_given,
            "tracking_consent_wording": self.wording,
            "tracking_consent_source": self.source,
            "tracking_consent_at": now if self.at is None else self.at,
        }


def consent_of_row(row: Any) -> TrackingConsent | None:
    """Read the decision from a row with `CONSENT_COLUMNS`. None means that the contact was never asked."""
    if row.consents_to_tracking is None:
        return None
    place = row.tracking_consent_source or ""
    return TrackingConsent(row.consents_to_tracking, row.tracking_consent_wording, place, row.tracking_consent_at)


def consent_json(consent: TrackingConsent | None) -> dict[str, Any] | None:
    if consent is None:
        return None
    decided = {"isGiven": consent.is_given, "wording": consent.wording, "source": consent.source}
    return {**decided, "at": isoformat(consent.at)}


def consent_cell(consent: TrackingConsent | None) -> str:
    """Return the cell of a file that `normalize_consent` parses."""
    if consent is None:
        return ""
    return consent.wording or "" if consent.is_given else REFUSED


def normalize_consent(text: str) -> str | None:
    """Parse a cell of a file: return the wording, `no` for a refusal, or None if it is empty.

    A bare "yes" is refused, because it does not state the wording.
    """
    line = " ".join(text.split())
    if line.lower() in _REFUSALS:
        return REFUSED
    if line.lower() in _BARE_CONSENTS or len(line) > MAX_WORDING_LENGTH or not line.isprintable():
        raise InvalidContact("Consent needs the wording that the contact agreed to.", field="trackingConsent")
    return line or None


async def confirm_consent(tx: Transaction, tenant_id: int, email: str, wording: str, now: Instant) -> None:
    """Record the consent of a sign-up form that the contact confirmed. It never replaces an earlier decision."""
    undecided = (*_contact(tenant_id, email), contacts.c.consents_to_tracking.is_(None))
    if await tx.execute(select(contacts.c.id).where(*undecided)):
        consent = TrackingConsent(is_given=True, wording=wording, source=SIGN_UP_FORM)
        await set_consent(tx, tenant_id, email, consent, now)


async def discard_requests(tx: Transaction, tenant_id: int, email: str) -> None:
    """Discard the consents of sign-up forms that the contact has not confirmed."""
    own = select(contacts.c.id).where(*_contact(tenant_id, email)).scalar_subquery()
    await tx.execute(update(subscriptions).where(subscriptions.c.contact_key == own).values(requested_consent=None))


async def set_consent(
    tx: Transaction, tenant_id: int, email: str, consent: TrackingConsent, now: Instant, *, actor: str | None = None
) -> None:
    """Record the decision of a contact. Without an `actor`, they made it through their own link."""
    await tx.execute(update(contacts).where(*_contact(tenant_id, email)).values(**consent.columns(now)))
    await audit_consent(tx, tenant_id, email, consent, now, actor=actor)


async def audit_consent(
    tx: Transaction, tenant_id: int, email: str, consent: TrackingConsent, now: Instant, *, actor: str | None = None
) -> None:
    await audit_log.record(
        tx,
        now,
        actor=actor or consent.source,
        action="contact.tracking_consent",
        subject=email,
        tenant_id=tenant_id,
        detail={"isGiven": consent.is_given, "wording": consent.wording, "source": consent.source},
    )


async def can_track(tx: Transaction, installation: TrackingMode, tenant_id: int, list_key: str | None = None) -> bool:
    """Return whether individuals may be tracked, so that it makes sense to ask for consent."""
    rows = await tx.execute(select(tenants.c.tracking).where(tenants.c.id == tenant_id))
    modes = [parse_mode(row.tracking) for row in rows]
    if list_key is not None:
        own = (lists.c.tenant_id == tenant_id, lists.c.list_key == list_key)
        modes += [parse_mode(row.tracking) for row in await tx.execute(select(lists.c.tracking).where(*own))]
    return strictest(installation, *modes) is TrackingMode.INDIVIDUAL


def _contact(tenant_id: int, email: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return contacts.c.tenant_id == tenant_id, contacts.c.email == email


def make_consent(
    *, is_given: bool, wording: str | None, source: str, at: Instant | None = None, now: Instant
) -> TrackingConsent:
    """Check a decision. Consent needs the wording that the contact saw; a withdrawal needs none."""
    text = None if wording is None else " ".join(wording.split()) or None
    if is_given and text is None:
        raise InvalidInput("Consent needs the wording that the contact agreed to.", field="trackingConsent.wording")
    if text is not None and not (len(text) <= MAX_WORDING_LENGTH and text.isprintable()):
        raise InvalidInput(
            "The wording has at most {max_length} printable characters.",
            max_length=MAX_WORDING_LENGTH,
            field="trackingConsent.wording",
        )
    place = " ".join(source.split())
    if not 1 <= len(place) <= MAX_SOURCE_LENGTH or not place.isprintable():
        raise InvalidInput(
            "The source has 1 to {max_length} printable characters.",
            max_length=MAX_SOURCE_LENGTH,
            field="trackingConsent.source",
        )
    if at is not None and at > now:
        raise InvalidInput(
            "The time of the consent is in the future. It must be in the past.", field="trackingConsent.at"
        )
    return TrackingConsent(is_given, text, place, at)
