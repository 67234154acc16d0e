"""Standing: who may be written to, from what people do and what is reported of them.

Everything here may be told twice, late and in any order: the same facts always lead to the same standing. Only the
person, by coming back, or an operator makes it better again. The functions work inside the caller's transaction;
`Standing` wraps the common ones in transactions of their own.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mailwright.audience import lists, subscription_events
from mailwright.audience.lists import GENERAL
from mailwright.audience.suppressions import ALL_MESSAGES
from mailwright.domain import address
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.ids import uuid7s
from mailwright.outbox import audit_log
from mailwright.outbox.accept import INSERT_CONTACTS
from mailwright.storage.database import Database, Transaction
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

ACTIVATE = statement(__package__, "activate")
ACTIVATE_RETURNED = statement(__package__, "activate_returned")
CHANGE_STATUS = statement(__package__, "change_status")
ERASED_PEOPLE = statement(__package__, "erased_people")
FORGET_LEAVING = statement(__package__, "forget_leaving")
FORGIVE_SOFT_BOUNCES = statement(__package__, "forgive_soft_bounces")
LEAVE_LISTS = statement(__package__, "leave_lists")
LIFT_ALL = statement(__package__, "lift_all")
LIFT_LEAVING = statement(__package__, "lift_leaving")
LOCK_CONTACTS = statement(__package__, "lock_contacts")
PREFERENCES = statement(__package__, "preferences")
REJOIN_LIST = statement(__package__, "rejoin_list")
REPEATED_SOFT_BOUNCES = statement(__package__, "repeated_soft_bounces")
SCOPES = statement(__package__, "scopes")
STANDING = statement(__package__, "standing")
SUBSCRIBE = statement(__package__, "subscribe")
SUPPRESS = statement(__package__, "suppress")


class ContactStatus(StrEnum):
    ACTIVE = "active"
    UNSUBSCRIBED = "unsubscribed"
    BOUNCED = "bounced"


class SuppressionReason(StrEnum):
    """Why nothing is sent; `sql/suppress.sql` and `sql/lift_leaving.sql` name the same words."""

    BOUNCE = "bounce"
    SOFT_BOUNCES = "soft_bounces"
    COMPLAINT = "complaint"
    UNSUBSCRIBED = "unsubscribed"


# What weighs less never replaces what weighs more; `sql/change_status.sql` has the same order.
WEIGHTS: Final = {ContactStatus.ACTIVE: 0, ContactStatus.UNSUBSCRIBED: 1, ContactStatus.BOUNCED: 2}


@dataclass(frozen=True, slots=True)
class SoftBounces:
    """How many within how long are as good as a hard one."""

    count: int = 3
    days: int = 30


@dataclass(frozen=True, slots=True)
class StatusFact:
    """Something that happened to a person, and what follows from it. The address is in normal form."""

    tenant_id: int
    email: str
    scope: str
    reason: SuppressionReason
    source: str
    at: Instant
    status: ContactStatus | None = None  # none: leaving one list changes nothing about the person as a whole
    bounce_type: str | None = None
    bounce_subtype: str | None = None

    @property
    def person(self) -> tuple[int, str]:
        return self.tenant_id, self.email


def unsubscribe_fact(tenant_id: int, email: str, list_key: str, *, source: str, at: Instant) -> StatusFact:
    status = ContactStatus.UNSUBSCRIBED if list_key == GENERAL else None
    return StatusFact(tenant_id, email, list_key, SuppressionReason.UNSUBSCRIBED, source, at, status)


def bounce_fact(
    tenant_id: int,
    email: str,
    *,
    source: str,
    at: Instant,
    reason: SuppressionReason = SuppressionReason.BOUNCE,
    bounce_type: str | None = None,
    bounce_subtype: str | None = None,
) -> StatusFact:
    status = ContactStatus.BOUNCED
    return StatusFact(tenant_id, email, ALL_MESSAGES, reason, source, at, status, bounce_type, bounce_subtype)


def complaint_fact(tenant_id: int, email: str, *, source: str, at: Instant) -> StatusFact:
    return StatusFact(
        tenant_id, email, ALL_MESSAGES, SuppressionReason.COMPLAINT, source, at, ContactStatus.UNSUBSCRIBED
    )


async def apply_facts(tx: Runner, facts: Sequence[StatusFact], now: Instant) -> None:
    """Whoever is not known yet becomes a contact first: what is known of an address is kept with a person.

    Of somebody who was erased no more is kept than that no mail at all goes to the address.
    """
    erased = await _held(tx, {fact.person for fact in facts}, now)
    facts = [fact for fact in facts if fact.person not in erased or fact.scope == ALL_MESSAGES]
    if not facts:
        return
    if statuses := _weightiest(facts):
        await tx.count(CHANGE_STATUS, facts=[_status_row(fact) for fact in statuses])
    first = _earliest(facts)
    await tx.count(SUPPRESS, facts=[_suppression_row(fact) for fact in first])
    if of_lists := [_leaving_row(fact) for fact in first if fact.scope not in (ALL_MESSAGES, GENERAL)]:
        await tx.count(LEAVE_LISTS, facts=of_lists)


async def repeated_soft_bounces(
    tx: Runner, told: Iterable[tuple[int, str, Instant]], soft: SoftBounces
) -> list[StatusFact]:
    """Who bounced softly with too many mails, by the reports that are stored, as facts to apply.

    `told`: tenant, address and time of the bounces that were stored just now. Older ones are counted with these only.
    """
    rows = await tx.run(
        REPEATED_SOFT_BOUNCES,
        told=[{**_person_row((tenant_id, email)), "at": at} for tenant_id, email, at in sorted(set(told))],
        enough=soft.count,
        within=soft.days * DAY,
    )
    return [
        bounce_fact(
            row.tenant_id,
            row.email,
            source="reports",
            at=at,
            reason=SuppressionReason.SOFT_BOUNCES,
            bounce_type="soft",
            bounce_subtype="repeated",
        )
        for row in rows
        # The suppression is as old as the first time, the status as young as the last.
        for at in (row.first_at, row.last_at)
    ]


async def unsubscribe(tx: Runner, tenant_id: int, email: str, list_key: str, *, source: str, now: Instant) -> None:
    """`general` leaves all bulk mail. Leaving again changes nothing but the time of the status."""
    await apply_facts(tx, [unsubscribe_fact(tenant_id, normalize_email(email), list_key, source=source, at=now)], now)


async def resubscribe(tx: Runner, tenant_id: int, email: str, list_key: str, *, source: str, now: Instant) -> None:
    """Undoes exactly what leaving did: whoever bounced, complained or was suppressed by an operator stays so."""
    person = {"tenant_id": tenant_id, "email": normalize_email(email)}
    await tx.run(LOCK_CONTACTS, people=[person])
    await tx.count(LIFT_LEAVING, people=[person], list_key=list_key)
    if list_key == GENERAL:
        await tx.count(ACTIVATE_RETURNED, **person, source=source, now=now)
    else:
        await tx.count(REJOIN_LIST, **person, list_key=list_key, source=source)
        await tx.count(FORGET_LEAVING, **person, list_key=list_key)


async def subscribe(
    tx: Runner, tenant_id: int, emails: Iterable[str], list_key: str, *, source: str, now: Instant
) -> int:
    """Puts people on a list, also those who left it; answers how many joined. It opens no other door: whoever left as a
    whole, bounced or complained gets nothing all the same."""
    people = {(tenant_id, normalize_email(email)) for email in emails}
    if not people:
        return 0
    await ensure_contacts(tx, people, now)
    if list_key == GENERAL:  # everybody is on it who has not left it
        for _, email in sorted(people):
            await resubscribe(tx, tenant_id, email, GENERAL, source=source, now=now)
        return 0
    rows = [{**_person_row(person), "list_key": list_key, "at": now, "source": source} for person in sorted(people)]
    joined = await tx.count(SUBSCRIBE, people=rows)
    await tx.count(LIFT_LEAVING, people=rows, list_key=list_key)
    return joined


async def activate(tx: Runner, tenant_id: int, email: str, *, source: str, now: Instant) -> None:
    """An operator knows better: the address works again, or the person asked to be written to. Lists stay left."""
    person = {"tenant_id": tenant_id, "email": normalize_email(email)}
    if not await tx.count(ACTIVATE, **person, source=source, now=now):
        raise NotFound
    await tx.count(LIFT_ALL, **person)
    await tx.count(FORGIVE_SOFT_BOUNCES, **person)


@dataclass(frozen=True, slots=True)
class ListPreference:
    """One list, as one person sees it."""

    list_key: str
    name: str
    description: str | None
    is_public: bool
    is_subscribed: bool
    has_left: bool


@dataclass(frozen=True, slots=True)
class ContactPreferences:
    """What a person gets, and what they can change about it."""

    email: str
    status: ContactStatus
    locale: str | None
    scopes: Mapping[str, str]  # what is not sent, and why
    lists: tuple[ListPreference, ...]

    @property
    def gets_bulk_mail(self) -> bool:
        return GENERAL not in self.scopes and ALL_MESSAGES not in self.scopes

    @property
    def place(self) -> subscription_events.SubscriptionState:
        unsubscribe_fact = {each.list_key for each in self.lists if each.has_left}
        on = frozenset(each.list_key for each in self.lists if each.is_subscribed)
        return subscription_events.SubscriptionState(
            on, frozenset(unsubscribe_fact | self.scopes.keys()) - {ALL_MESSAGES}
        )


async def load_preferences(tx: Runner, tenant_id: int, email: str) -> ContactPreferences:
    """Of a stranger, too: nobody is told whether an address is known."""
    person = _person_row((tenant_id, normalize_email(email)))
    known = await tx.run(STANDING, **person)
    scopes = {row.list_key: row.reason for row in await tx.run(SCOPES, **person)}
    states = tuple([_list_state(row) for row in await tx.run(PREFERENCES, **person)])
    status, locale = (ContactStatus(known[0].status), known[0].locale) if known else (ContactStatus.ACTIVE, None)
    return ContactPreferences(person["email"], status, locale, scopes, states)


async def lock_contact(tx: Runner, tenant_id: int, email: str, now: Instant) -> None:
    """Whoever does something twice at once does one after the other: what is read from here on stays true.

    Somebody unknown becomes a contact for it; of somebody who was erased there is nothing to hold.
    """
    await _held(tx, {(tenant_id, normalize_email(email))}, now)


async def lock_known_contacts(tx: Runner, people: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    """Those of them who are contacts; whoever changes one of these waits for the end of this transaction."""
    rows = [_person_row(person) for person in sorted(people)]
    return {(row.tenant_id, row.email) for row in await tx.run(LOCK_CONTACTS, people=rows)} if rows else set()


async def ensure_contacts(tx: Runner, people: Iterable[tuple[int, str]], now: Instant) -> None:
    """Whoever is unknown becomes a contact, also somebody who was erased. Each is held until the transaction ends."""
    rows = [_person_row(person) for person in sorted(people)]
    if not rows:
        return
    ids = uuid7s(now, len(rows))
    contacts = [{**row, "contact_id": contact_id, "name": None} for row, contact_id in zip(rows, ids, strict=True)]
    await tx.count(INSERT_CONTACTS, contacts=contacts, now=now)
    await tx.run(LOCK_CONTACTS, people=rows)


@asynccontextmanager
async def recording_subscription_events(
    tx: Runner, tenant_id: int, email: str, *, source: str, now: Instant
) -> AsyncIterator[None]:
    """Whoever joins or leaves in here does so by themselves, and webhooks tell of it."""
    await lock_contact(tx, tenant_id, email, now)
    before = await load_preferences(tx, tenant_id, email)
    yield
    after = await load_preferences(tx, tenant_id, email)
    await subscription_events.record_changes(
        tx, tenant_id, after.email, before.place, after.place, source=source, now=now
    )


async def record_audit_entry(
    tx: Transaction,
    now: Instant,
    tenant_id: int,
    email: str,
    *,
    actor: str | None,
    action: str,
    list_key: str | None = None,
) -> None:
    """In the journal, where somebody acts under a name of their own."""
    if actor is not None:
        subject, detail = normalize_email(email), {} if list_key is None else {"listKey": list_key}
        await audit_log.record(tx, now, actor=actor, action=action, subject=subject, tenant_id=tenant_id, detail=detail)


class ContactStatusService:
    """The same, each in a transaction of its own."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def unsubscribe_by_link(self, tenant_id: int, email: str, list_key: str = GENERAL, *, source: str) -> None:
        """By a link in a mail, or the button behind it."""
        now = self._clock.now()

        async def work(tx: Runner) -> None:
            async with recording_subscription_events(tx, tenant_id, email, source=source, now=now):
                await unsubscribe(tx, tenant_id, email, list_key, source=source, now=now)

        await self._database.transact(work)

    async def resubscribe_by_link(self, tenant_id: int, email: str, list_key: str = GENERAL, *, source: str) -> None:
        """By the link that undoes it."""
        now = self._clock.now()

        async def work(tx: Runner) -> None:
            async with recording_subscription_events(tx, tenant_id, email, source=source, now=now):
                await resubscribe(tx, tenant_id, email, list_key, source=source, now=now)

        await self._database.transact(work)

    async def subscribe(
        self, tenant_id: int, email: str, list_key: str, *, source: str, actor: str | None = None
    ) -> bool:
        """Whether the person was not on the list before. An `actor` is noted in the journal."""
        now = self._clock.now()
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            joined = bool(await subscribe(tx, tenant_id, [email], list_key, source=source, now=now))
            await record_audit_entry(
                tx, now, tenant_id, email, actor=actor, action="contact.subscribe", list_key=list_key
            )
        return joined

    async def unsubscribe(
        self, tenant_id: int, email: str, list_key: str, *, source: str, actor: str | None = None
    ) -> None:
        """What a caller asks for by name must exist; a link in an old mail is followed with `leave`."""
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            now = self._clock.now()
            await unsubscribe(tx, tenant_id, email, list_key, source=source, now=now)
            await record_audit_entry(
                tx, now, tenant_id, email, actor=actor, action="contact.unsubscribe", list_key=list_key
            )

    async def bounce(
        self,
        tenant_id: int,
        email: str,
        *,
        source: str,
        bounce_type: str | None = None,
        bounce_subtype: str | None = None,
    ) -> None:
        now = self._clock.now()
        fact = bounce_fact(
            tenant_id,
            normalize_email(email),
            source=source,
            at=now,
            bounce_type=bounce_type,
            bounce_subtype=bounce_subtype,
        )
        await self._database.transact(lambda tx: apply_facts(tx, [fact], now))

    async def complain(self, tenant_id: int, email: str, *, source: str) -> None:
        now = self._clock.now()
        fact = complaint_fact(tenant_id, normalize_email(email), source=source, at=now)
        await self._database.transact(lambda tx: apply_facts(tx, [fact], now))

    async def activate(self, tenant_id: int, email: str, *, source: str, actor: str | None = None) -> None:
        """An `actor` is noted in the journal."""
        now = self._clock.now()
        async with self._database.write() as tx:
            await activate(tx, tenant_id, email, source=source, now=now)
            await record_audit_entry(tx, now, tenant_id, email, actor=actor, action="contact.activate")

    async def load_preferences(self, tenant_id: int, email: str) -> ContactPreferences:
        async with self._database.read() as tx:
            return await load_preferences(tx, tenant_id, email)


def normalize_email(email: str) -> str:
    try:
        return address.normal(email)
    except address.InvalidAddress as error:
        raise InvalidInput(f"is not an email address: {error}", field="email") from error


async def _held(tx: Runner, people: set[tuple[int, str]], now: Instant) -> set[tuple[int, str]]:
    """Holds them, unknown ones as new contacts; answers who was erased. Whoever is known is held before that is asked:
    somebody who is being erased would be taken for known, and kept all the same."""
    unknown = people - await lock_known_contacts(tx, people)
    erased = await _erased(tx, unknown)
    await ensure_contacts(tx, unknown - erased, now)
    return erased


async def _erased(tx: Runner, people: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    rows = [_person_row(person) for person in sorted(people)]
    return {(row.tenant_id, row.email) for row in await tx.run(ERASED_PEOPLE, people=rows)} if rows else set()


def _weightiest(facts: Iterable[StatusFact]) -> list[StatusFact]:
    """One for each person: a statement changes a row once."""
    found: dict[tuple[int, str], StatusFact] = {}
    for fact in facts:
        if fact.status is None:
            continue
        other = found.get(fact.person)
        if other is None or other.status is None or _weight(fact) >= _weight(other):
            found[fact.person] = fact
    return list(found.values())


def _weight(fact: StatusFact) -> tuple[int, Instant]:
    return (WEIGHTS[fact.status] if fact.status else -1), fact.at


def _earliest(facts: Iterable[StatusFact]) -> list[StatusFact]:
    found: dict[tuple[int, str, str], StatusFact] = {}
    for fact in facts:
        key = (*fact.person, fact.scope)
        if key not in found or (fact.at, fact.reason) < (found[key].at, found[key].reason):
            found[key] = fact
    return list(found.values())


def _person_row(person: tuple[int, str]) -> dict[str, Any]:
    return {"tenant_id": person[0], "email": person[1]}


def _status_row(fact: StatusFact) -> dict[str, Any]:
    return {
        **_person_row(fact.person),
        "status": fact.status,
        "weight": _weight(fact)[0],
        "at": fact.at,
        "source": fact.source,
        "bounce_type": fact.bounce_type,
        "bounce_subtype": fact.bounce_subtype,
    }


def _suppression_row(fact: StatusFact) -> dict[str, Any]:
    return {**_leaving_row(fact), "reason": fact.reason}


def _leaving_row(fact: StatusFact) -> dict[str, Any]:
    return {**_person_row(fact.person), "list_key": fact.scope, "at": fact.at, "source": fact.source}


def _list_state(row: Any) -> ListPreference:
    has_left = row.unsubscribed_at is not None or bool(row.is_suppressed)
    is_subscribed = row.subscribed_at is not None and not has_left
    return ListPreference(row.list_key, row.name, row.description, bool(row.is_public), is_subscribed, has_left)
