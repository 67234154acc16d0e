"""Choices: what a reader ticks becomes what they are sent, in one transaction, and only that."""

from dataclasses import dataclass

from sqlalchemy import update

from mailwright.audience.lists import GENERAL
from mailwright.audience.standing import Preferences, Reason, come_back, leave, preferences, subscribe
from mailwright.audience.suppressions import ALL_MAIL
from mailwright.domain.clock import Clock, Instant
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts
from mailwright.web.public.readers import SOURCE, Reader


@dataclass(frozen=True, slots=True)
class Choice:
    shown: frozenset[str]  # a list that was made since the page was opened is nobody's choice
    ticked: frozenset[str]
    locale: str | None  # None leaves it as it is
    leaves_everything: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What changed is told from what is stored, not from what was asked."""

    before: Preferences
    after: Preferences

    @property
    def joined(self) -> list[str]:
        return _more(self.before, self.after)

    @property
    def left(self) -> list[str]:
        return _more(self.after, self.before)

    @property
    def left_everything(self) -> bool:
        return has_left_everything(self.after) and not has_left_everything(self.before)


async def choose(database: Database, clock: Clock, reader: Reader, choice: Choice) -> Outcome:
    async with database.write() as tx:
        before = await preferences(tx, reader.tenant_id, reader.email)
        if choice.leaves_everything:
            await leave(tx, reader.tenant_id, reader.email, GENERAL, source=SOURCE, now=clock.now())
        else:
            await _change_lists(tx, reader, choice, before, clock.now())
        if choice.locale is not None:
            person = (contacts.c.tenant_id == reader.tenant_id, contacts.c.email == reader.email)
            await tx.execute(update(contacts).where(*person).values(locale=choice.locale))
        return Outcome(before, await preferences(tx, reader.tenant_id, reader.email))


def has_left_everything(about: Preferences) -> bool:
    return GENERAL in about.scopes


def is_blocked(about: Preferences) -> bool:
    """Stopped by a bounce, a complaint or an operator: nothing that a reader ticks changes that."""
    return ALL_MAIL in about.scopes or about.scopes.get(GENERAL, Reason.LEFT) != Reason.LEFT


def lists_on(about: Preferences) -> dict[str, str]:
    """What the reader gets, by key and name. Whoever left everything gets none, whatever they were on."""
    if has_left_everything(about):
        return {}
    return {each.list_key: each.name for each in about.lists if each.is_subscribed}


async def _change_lists(tx: Transaction, reader: Reader, choice: Choice, before: Preferences, now: Instant) -> None:
    """Only lists that this reader may see: what else a form names does not count."""
    person = (reader.tenant_id, reader.email)
    choosable = {each.list_key: each.is_subscribed for each in before.lists if each.list_key in choice.shown}
    ticked = choosable.keys() & choice.ticked
    if has_left_everything(before):
        if not ticked:
            return
        await come_back(tx, *person, GENERAL, source=SOURCE, now=now)
    for list_key, is_on in choosable.items():
        if list_key in ticked and not is_on:
            await subscribe(tx, reader.tenant_id, [reader.email], list_key, source=SOURCE, now=now)
        elif list_key not in ticked and is_on:
            await leave(tx, *person, list_key, source=SOURCE, now=now)


def _more(fewer: Preferences, more: Preferences) -> list[str]:
    known = lists_on(fewer)
    return [name for list_key, name in lists_on(more).items() if list_key not in known]
