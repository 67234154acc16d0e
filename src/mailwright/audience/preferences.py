"""Choices: what a reader ticks becomes what they are sent, in one transaction, and only that."""

from dataclasses import dataclass

from sqlalchemy import update

from mailwright.audience import subscription_events
from mailwright.audience.lists import GENERAL
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
from mailwright.domain.clock import Clock, Instant
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts


@dataclass(frozen=True, slots=True)
class PreferenceChoice:
    shown: frozenset[str]  # a list that was made since the page was opened is nobody's choice
    ticked: frozenset[str]
    locale: str | None  # None leaves it as it is
    unsubscribe_all: bool = False


@dataclass(frozen=True, slots=True)
class PreferenceUpdate:
    """What changed is told from what is stored, not from what was asked."""

    before: ContactPreferences
    after: ContactPreferences

    @property
    def subscribed(self) -> list[str]:
        return _more(self.before, self.after)

    @property
    def unsubscribed(self) -> list[str]:
        return _more(self.after, self.before)

    @property
    def unsubscribed_from_all(self) -> bool:
        return has_unsubscribed_from_all(self.after) and not has_unsubscribed_from_all(self.before)


async def update_preferences(
    database: Database, clock: Clock, tenant_id: int, email: str, choice: PreferenceChoice, *, source: str
) -> PreferenceUpdate:
    """`email` in normal form; `source` says who says so, where a contact's status and lists are shown."""
    async with database.write() as tx:
        now = clock.now()
        await lock_contact(tx, tenant_id, email, now)
        before = await load_preferences(tx, tenant_id, email)
        if choice.unsubscribe_all:
            await unsubscribe(tx, tenant_id, email, GENERAL, source=source, now=now)
        else:
            await _change_lists(tx, _Choosing(tenant_id, email, source, now), choice, before)
        if choice.locale is not None:
            person = (contacts.c.tenant_id == tenant_id, contacts.c.email == email)
            await tx.execute(update(contacts).where(*person).values(locale=choice.locale))
        after = await load_preferences(tx, tenant_id, email)
        await subscription_events.record_changes(
            tx, tenant_id, email, before.place, after.place, source=source, now=now
        )
        return PreferenceUpdate(before, after)


def has_unsubscribed_from_all(about: ContactPreferences) -> bool:
    return GENERAL in about.scopes


def is_blocked(about: ContactPreferences) -> bool:
    """Stopped by a bounce, a complaint or an operator: nothing that a reader ticks changes that."""
    return (
        ALL_MESSAGES in about.scopes
        or about.scopes.get(GENERAL, SuppressionReason.UNSUBSCRIBED) != SuppressionReason.UNSUBSCRIBED
    )


def subscribed_lists(about: ContactPreferences) -> dict[str, str]:
    """What the reader gets, by key and name. Whoever left everything gets none, whatever they were on."""
    if has_unsubscribed_from_all(about):
        return {}
    return {each.list_key: each.name for each in about.lists if each.is_subscribed}


@dataclass(frozen=True, slots=True)
class _Choosing:
    tenant_id: int
    email: str
    source: str
    now: Instant


async def _change_lists(tx: Transaction, who: _Choosing, choice: PreferenceChoice, before: ContactPreferences) -> None:
    """Only lists that this reader may see: what else a form names does not count."""
    person = (who.tenant_id, who.email)
    choosable = {each.list_key: each.is_subscribed for each in before.lists if each.list_key in choice.shown}
    ticked = choosable.keys() & choice.ticked
    if has_unsubscribed_from_all(before):
        if not ticked:
            return
        await resubscribe(tx, *person, GENERAL, source=who.source, now=who.now)
    for list_key, is_on in choosable.items():
        if list_key in ticked and not is_on:
            await subscribe(tx, who.tenant_id, [who.email], list_key, source=who.source, now=who.now)
        elif list_key not in ticked and is_on:
            await unsubscribe(tx, *person, list_key, source=who.source, now=who.now)


def _more(fewer: ContactPreferences, more: ContactPreferences) -> list[str]:
    known = subscribed_lists(fewer)
    return [name for list_key, name in subscribed_lists(more).items() if list_key not in known]
