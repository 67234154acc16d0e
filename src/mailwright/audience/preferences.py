"""Apply the choices of a contact on the preference page, in one transaction."""

from sqlalchemy import update

from mailwright.audience import subscription_events
from mailwright.audience.lists import GENERAL
from mailwright.audience.snooze import set_snooze
from mailwright.audience.status import (
    ContactPreferences,
    SuppressionReason,
    load_preferences,
    lock_contact,
    resubscribe,
    subscribe,
    unsubscribe,
)
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.audience.tracking_consent import TrackingConsent, discard_requests, set_consent
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox.pending_erasures import refuse_erasing
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts


@dataclass(frozen=True, slots=True)
class PreferenceChoice:
    shown: frozenset[str]  # the lists that were on the page; other lists do not change
    selected: frozenset[str]
    locale: str | None  # None keeps the language
    unsubscribe_all: bool = False
    tracking_consent: TrackingConsent | None = None  # None if the page did not ask
    snooze_days: int | None = None  # how long to pause bulk email; 0 ends the pause, None keeps it


@dataclass(frozen=True, slots=True)
class PreferenceUpdate:
    """The stored preferences before and after the update, so that the page can show the actual changes."""

    before: ContactPreferences
    after: ContactPreferences

    @property
    def subscribed(self) -> list[str]:
        return _added_lists(self.before, self.after)

    @property
    def unsubscribed(self) -> list[str]:
        return _added_lists(self.after, self.before)

    @property
    def unsubscribed_from_all(self) -> bool:
        return has_unsubscribed_from_all(self.after) and not has_unsubscribed_from_all(self.before)


async def update_preferences(
    database: Database,
    clock: Clock,
    tenant_id: int,
    email: str,
    choice: PreferenceChoice,
    *,
    source: str,
    message_id: str | None = None,
) -> PreferenceUpdate:
    """Apply a choice. `email` is normalized; `source` is stored with the status and the subscriptions.

    An unsubscribe is attributed to the message whose link led to the page.
    """
    async with database.write() as tx:
        now = clock.now()
        await lock_contact(tx, tenant_id, email, now)
        await refuse_erasing(tx, tenant_id, [email])
        before = await load_preferences(tx, tenant_id, email)
        if choice.unsubscribe_all:
            await unsubscribe(tx, tenant_id, email, GENERAL, source=source, now=now)
        else:
            await _apply_choice(tx, _Change(tenant_id, email, source, now), choice, before)
        if choice.locale is not None:
            contact = (contacts.c.tenant_id == tenant_id, contacts.c.email == email)
            await tx.execute(update(contacts).where(*contact).values(locale=choice.locale))
        consent = choice.tracking_consent
        if consent is not None and consent.is_given != bool(before.consents_to_tracking):
            await set_consent(tx, tenant_id, email, consent, now)
        if consent is not None and not consent.is_given:
            await discard_requests(tx, tenant_id, email)
        if choice.snooze_days is not None:
            until = now + choice.snooze_days * DAY if choice.snooze_days else None
            await set_snooze(tx, tenant_id, email, until, now, actor=source)
        after = await load_preferences(tx, tenant_id, email)
        await subscription_events.record_changes(
            tx,
            tenant_id,
            email,
            before.subscription_state,
            after.subscription_state,
            source=source,
            now=now,
            message_id=message_id,
        )
        return PreferenceUpdate(before, after)


def has_unsubscribed_from_all(preferences: ContactPreferences) -> bool:
    return GENERAL in preferences.scopes


def is_blocked(preferences: ContactPreferences) -> bool:
    """Return whether a bounce, a complaint or an operator suppressed the address, which the contact cannot undo."""
    return (
        ALL_MESSAGES in preferences.scopes
        or preferences.scopes.get(GENERAL, SuppressionReason.UNSUBSCRIBED) != SuppressionReason.UNSUBSCRIBED
    )


def subscribed_lists(preferences: ContactPreferences) -> dict[str, str]:
    """Return the names of the contact's lists by key. The result is empty after an unsubscribe from everything."""
    if has_unsubscribed_from_all(preferences):
        return {}
    return {entry.list_key: entry.name for entry in preferences.lists if entry.is_subscribed}


@dataclass(frozen=True, slots=True)
class _Change:
    tenant_id: int
    email: str
    source: str
    now: Instant


async def _apply_choice(tx: Transaction, change: _Change, choice: PreferenceChoice, before: ContactPreferences) -> None:
    """Change only lists that this contact may see. Other names in the form are ignored."""
    contact = (change.tenant_id, change.email)
    is_subscribed = {entry.list_key: entry.is_subscribed for entry in before.lists if entry.list_key in choice.shown}
    selected = is_subscribed.keys() & choice.selected
    if has_unsubscribed_from_all(before):
        if not selected:
            return
        await resubscribe(tx, *contact, GENERAL, source=change.source, now=change.now)
    for list_key, is_on in is_subscribed.items():
        if list_key in selected and not is_on:
            await subscribe(tx, change.tenant_id, [change.email], list_key, source=change.source, now=change.now)
        elif list_key not in selected and is_on:
            await unsubscribe(tx, *contact, list_key, source=change.source, now=change.now)


def _added_lists(fewer: ContactPreferences, more: ContactPreferences) -> list[str]:
    known = subscribed_lists(fewer)
    return [name for list_key, name in subscribed_lists(more).items() if list_key not in known]
