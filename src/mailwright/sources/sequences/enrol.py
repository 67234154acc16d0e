"""Enrol people by hand, list who is in a sequence, and retry, skip or remove them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, true, update

from mailwright.audience import lists
from mailwright.audience.contact_fields import InvalidContact, normalize_email
from mailwright.audience.eligibility import is_known, is_subscribed_to, may_receive
from mailwright.audience.enrolments import end_enrolments
from mailwright.audience.filter_sql import filter_clause
from mailwright.audience.segments import load_filters
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import InvalidInput, NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.outbox import audit_log
from mailwright.sources.send_approvals import PlannedSend, SendKind, end_approvals, find_refusal
from mailwright.sources.sequences.last_emails import load_last_emails
from mailwright.sources.sequences.program import MAY_NOT_RECEIVE, EndReason
from mailwright.sources.sequences.publish import is_enrolled
from mailwright.sources.sequences.records import SequenceStatus, StoredSequence, find_sequence
from mailwright.sources.sequences.versions import load_published
from mailwright.storage.database import Database, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import contacts, sequence_enrolments, sequence_steps

ENROL_CONTACTS = statement(__package__, "enrol_contacts")

MAX_EMAILS: Final = 10_000
_BATCH: Final = 10_000
_NO_EVENTS: Final[Mapping[int, int]] = {}
_E = sequence_enrolments.c
_S = sequence_steps.c
OPEN_STATUSES: Final = (SequenceStatus.RUNNING, SequenceStatus.PAUSED)


@dataclass(frozen=True, slots=True)
class People:
    """Whom to enrol: addresses, or everyone on a list or in a segment."""

    emails: Sequence[str] = ()
    list_key: str | None = None
    segment: str | None = None


@dataclass(frozen=True, slots=True)
class EnrolResult:
    """How many people entered, and why others did not."""

    enrolled: int
    already_in: int  # They are in the sequence now.
    re_entry: int  # They had a run before, and the re-entry rule does not let them enter again.
    not_eligible: int  # They may not receive its emails.
    unknown: int  # There is no contact with the address.


@dataclass(frozen=True, slots=True)
class EnrolmentRecord:
    id: int
    email: str
    run: int
    entered_at: Instant
    entered_because: str
    node: str | None
    waits_since: Instant | None
    due_at: Instant | None
    failure: str | None
    ended_at: Instant | None
    end_reason: str | None
    unsent_step: str | None = None  # The step of the email from which their wait counts, if it is not sent yet.
    awaits_consent: bool = False  # They may not receive the email of their step before they subscribe or confirm.


class Enrolments:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def enrol(self, tenant_id: int, sequence_id: str, people: People, *, actor: str) -> EnrolResult:
        """Enrol people at the first step. The entry filter and the exits apply as for everyone else."""
        now = self._clock.now()
        async with self._database.write() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            if sequence.status not in OPEN_STATUSES:
                raise NotPossibleNow("The sequence is {value}. Publish it first.", value=sequence.status.phrase)
            wanted, unknown = await wanted_people(tx, tenant_id, people, now)
            eligible = may_receive(tenant_id, [] if sequence.list_key is None else [sequence.list_key])
            total = await count_contacts(tx, wanted)
            allowed = await count_contacts(tx, and_(wanted, eligible))
            already_in = await count_contacts(tx, and_(wanted, is_in(sequence.id)))
            waiting = await count_contacts(tx, and_(wanted, ~eligible, is_in(sequence.id)))
            planned = planned_enrolment(sequence, people, allowed)
            if (refusal := await find_refusal(tx, now, planned, actor=actor)) is None:
                enrolled = await enrol_matching(tx, sequence.id, and_(wanted, eligible), "manual", now)
                await end_approvals(tx, tenant_id, SendKind.ENROLMENT, sequence_id)
                await _record(tx, now, sequence, actor, "enrol", enrolled=enrolled)
        if refusal is not None:
            raise refusal  # After the commit, which keeps the request for an approval.
        re_entry = allowed - (already_in - waiting) - enrolled
        return EnrolResult(enrolled, already_in, re_entry, total - allowed - waiting, unknown)

    async def list_page(
        self,
        tenant_id: int,
        sequence_id: str,
        *,
        limit: int,
        before: int = 2**63 - 1,
        state: str | None = None,
    ) -> list[EnrolmentRecord]:
        """Return a page of enrolments, newest first. `state` is active, failed or ended."""
        conditions: dict[str | None, ColumnElement[bool]] = {
            "active": _E.ended_at.is_(None),
            "failed": and_(_E.ended_at.is_(None), _E.failure.is_not(None)),
            "ended": _E.ended_at.is_not(None),
        }
        async with self._database.read() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            query = enrolment_query().where(_E.sequence_key == sequence.id, _E.id < before)
            if state is not None:
                query = query.where(conditions[state])
            rows = await tx.execute(query.order_by(_E.id.desc()).limit(limit))
            found = [EnrolmentRecord(**row._mapping) for row in rows]
            waiting = [each.id for each in found if each.waits_since is not None and each.due_at is not None]
            emails = await load_last_emails(tx, waiting)
            awaiting = await _awaiting_consent(tx, sequence, [each for each in found if each.id in set(waiting)])
        unsent = {key: email.step for key, email in emails.items() if email.is_unsent}
        return [
            replace(each, unsent_step=unsent.get(each.id), awaits_consent=each.id in awaiting)
            if each.id in unsent or each.id in awaiting
            else each
            for each in found
        ]

    async def retry(self, tenant_id: int, sequence_id: str, *, email: str | None, actor: str, skips: bool) -> int:
        """Run the failed step of a person or of everyone again.

        With `skips`, continue without the email of the step.
        """
        now = self._clock.now()
        async with self._database.write() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            failed = and_(is_enrolled(sequence.id), _E.failure.is_not(None), _of_email(tenant_id, email))
            values = {"failure": None, "due_at": now, "skips_email": skips}
            rows = await tx.execute(update(sequence_enrolments).where(failed).values(**values).returning(_E.id))
            if not rows:
                raise NotFound("No step of this sequence failed." if email is None else "No step failed for them.")
            action = "skip" if skips else "retry"
            await _record(tx, now, sequence, actor, action, people=len(rows))
        return len(rows)

    async def remove(self, tenant_id: int, sequence_id: str, email: str, *, actor: str) -> None:
        """Take a person out of a sequence, and cancel its messages to them that are not sent yet."""
        now = self._clock.now()
        async with self._database.write() as tx:
            sequence = await find_sequence(tx, tenant_id, sequence_id)
            # Contacts are locked before enrolments everywhere.
            address = (contacts.c.tenant_id == tenant_id, contacts.c.email == normalize_email(email))
            await tx.execute(select(contacts.c.id).where(*address).with_for_update())
            rows = await tx.execute(select(_E.id).where(is_enrolled(sequence.id), _of_email(tenant_id, email)))
            if not rows:
                raise NotFound("This person is not in the sequence.")
            await end_enrolments(tx, [(row.id, EndReason.REMOVED.value) for row in rows], now)
            await _record(tx, now, sequence, actor, "remove")


async def _awaiting_consent(
    tx: Transaction, sequence: StoredSequence, waiting: Sequence[EnrolmentRecord]
) -> frozenset[int]:
    """Return those of the waiting runs that wait for the person's consent."""
    if not waiting or sequence.version is None:
        return frozenset()
    program = (await load_published(tx, sequence.id, sequence.version)).program
    return frozenset(each.id for each in waiting if program.awaits_consent(each.node, each.waits_since))


def planned_enrolment(sequence: StoredSequence, people: People, recipients: int, **more: Any) -> PlannedSend:
    """Return the content that a second person must approve before many people enter at once."""
    content: dict[str, Any] = {"sequence": sequence.name, "version": sequence.version, **more}
    content |= {"list": people.list_key, "segment": people.segment, "addresses": sorted(people.emails)}
    subject, name = sequence.sequence_id, f"{sequence.name}: {recipients:,} people"
    return PlannedSend(sequence.tenant_id, SendKind.ENROLMENT, subject, name, recipients, content)


def enrolment_query() -> Select[Any]:
    others = ("email", "unsent_step", "awaits_consent")
    own = [_E[name] for name in EnrolmentRecord.__slots__ if name not in others]
    return select(contacts.c.email, *own).join_from(sequence_enrolments, contacts, contacts.c.id == _E.contact_key)


async def enrol_matching(
    tx: Transaction,
    sequence_key: int,
    matching: ColumnElement[bool],
    because: str,
    now: Instant,
    *,
    item_key: int | None = None,
) -> int:
    """Enrol the contacts that match, unless the re-entry rule leaves them out. Return how many entered."""
    rows = await tx.execute(select(contacts.c.id).where(matching).order_by(contacts.c.id))
    return await enrol_contacts(tx, sequence_key, [row.id for row in rows], because, now, item_key=item_key)


async def enrol_contacts(
    tx: Transaction,
    sequence_key: int,
    contact_keys: Sequence[int],
    because: str,
    now: Instant,
    *,
    events: Mapping[int, int] = _NO_EVENTS,
    item_key: int | None = None,
) -> int:
    """Enrol contacts. `events` are the keys of the events that start their runs, by contact."""
    enrolled = 0
    for start in range(0, len(contact_keys), _BATCH):
        rows = [(key, events.get(key), item_key) for key in contact_keys[start : start + _BATCH]]
        enrolled += await tx.count(ENROL_CONTACTS, contacts=rows, sequence_key=sequence_key, because=because, now=now)
    return enrolled


async def wanted_people(
    tx: Transaction, tenant_id: int, people: People, now: Instant
) -> tuple[ColumnElement[bool], int]:
    """Return the condition for the people to enrol, and how many addresses are not contacts."""
    known = is_known(tenant_id)
    if (bool(people.emails), people.list_key is not None, people.segment is not None).count(True) > 1:
        raise InvalidInput("Name addresses, a list or a segment, but only one of them.", field="emails")
    if people.list_key is not None:
        await lists.require(tx, tenant_id, people.list_key, field="list")
        return and_(known, is_subscribed_to(people.list_key)), 0
    if people.segment is not None:
        found = await load_filters(tx, tenant_id, [people.segment])
        if not found:
            raise InvalidInput("There is no segment {segment}.", field="segment", segment=people.segment)
        return and_(known, filter_clause(found[people.segment], tenant_id, now)), 0
    emails = sorted({_address(number, email) for number, email in enumerate(people.emails)})
    if not 1 <= len(emails) <= MAX_EMAILS:
        raise InvalidInput(
            "Name 1 to {max_emails} addresses, a list or a segment.", field="emails", max_emails=MAX_EMAILS
        )
    named = and_(known, contacts.c.email.in_(emails))
    return named, len(emails) - await count_contacts(tx, named)


def _address(number: int, email: str) -> str:
    try:
        return normalize_email(email)
    except InvalidContact as error:
        raise InvalidContact(
            "{email}: {error}", field=f"emails[{number}]", email=repr(email[:254]), error=error
        ) from error


def kept_out(sequence_key: int, reentry: int | None, now: Instant) -> Select[tuple[int]]:
    """Return who is in a sequence or may not enter it again yet, by the same rule as in `enrol_contacts.sql`."""
    is_too_early = true() if reentry is None else _E.entered_at > now - reentry * DAY + DAY // 2
    was_in = and_(counts_for_re_entry(), is_too_early)
    return select(_E.contact_key).where(_E.sequence_key == sequence_key, or_(_E.ended_at.is_(None), was_in))


def counts_for_re_entry() -> ColumnElement[bool]:
    """Match runs that the re-entry rule counts, by the same rule as in `enrol_contacts.sql`: all except those that the
    entry filter ended, and those that ended before their first email because the person may not receive emails.
    """
    other_steps = select(func.count()).where(_S.enrolment_key == _E.id, _S.outcome != "sent").scalar_subquery()
    has_email = _E.visit != other_steps  # Also if retention has deleted its steps.
    was_reached = or_(_E.end_reason.not_in([reason.value for reason in MAY_NOT_RECEIVE]), has_email)
    return or_(_E.ended_at.is_(None), and_(_E.end_reason != EndReason.ENTRY.value, was_reached))


def is_in(sequence_key: int) -> ColumnElement[bool]:
    """Match contacts who are in a sequence now."""
    return contacts.c.id.in_(select(_E.contact_key).where(is_enrolled(sequence_key)))


async def count_contacts(tx: Transaction, matching: ColumnElement[bool]) -> int:
    return int((await tx.execute(select(func.count()).select_from(contacts).where(matching)))[0][0])


def _of_email(tenant_id: int, email: str | None) -> ColumnElement[bool]:
    mine = [contacts.c.tenant_id == tenant_id]
    if email is not None:
        mine.append(contacts.c.email == normalize_email(email))
    return _E.contact_key.in_(select(contacts.c.id).where(*mine))


async def _record(
    tx: Transaction, now: Instant, sequence: StoredSequence, actor: str, action: str, **detail: Any
) -> None:
    await audit_log.record(
        tx,
        now,
        actor=actor,
        action=f"sequence.{action}",
        subject=sequence.sequence_id,
        tenant_id=sequence.tenant_id,
        detail={"name": sequence.name, **detail},
    )
