"""Record provider reports about messages, from any source. Each report counts once, in any order.

A report becomes an event on the timeline of its message, settles a message in doubt, and changes the status of the
contact. Concurrent callers share a commit, and each call returns after that commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from typing import Any, Final

from mailwright.audience import status
from mailwright.audience.status import SoftBounces, StatusFact
from mailwright.domain import address
from mailwright.domain.clock import DAY, HOUR, MINUTE, Clock, Instant
from mailwright.domain.errors import InvalidInput
from mailwright.domain.guard_rails import Incident
from mailwright.domain.ids import is_uuid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Event
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events import unknown_sends
from mailwright.events.response_judgement import (
    NO_MACHINES,
    Judgement,
    Neighbours,
    NewResponse,
    find_neighbours,
    judge,
    matters,
)
from mailwright.events.used_signatures import UsedSignatures, forget_signatures
from mailwright.ops import metrics
from mailwright.ops.logs import logger
from mailwright.outbox import reported
from mailwright.outbox.incidents import record_incidents, withdraw_complaints
from mailwright.outbox.provider_activity import ProviderEvents
from mailwright.outbox.reported import ReportedMessage, forget_recipients
from mailwright.outbox.settle import SentProof, append_events, event_row, record_bounces, record_proofs
from mailwright.providers.inbound.parsed_events import UsedSignature
from mailwright.providers.responses import mask_addresses
from mailwright.storage.database import Database
from mailwright.storage.group_commit import GroupCommit
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

__all__ = ["REPORTABLE", "ContactVerdict", "Report", "ReportCounts", "Reports", "SoftBounces", "TakenReports", "take"]

FORGET_REPORTS = statement(__package__, "forget_reports")
INSERT_REPORTS = statement(__package__, "insert_reports")
KEEP_SUBSCRIBER_REPORTS = statement(__package__, "keep_subscriber_reports")

# Maximum number of reports per transaction. The transaction must be short, because workers wait for it.
LARGEST_COMMIT: Final = 500

# How long reports are stored. A repeat after this time would count as a new report, but no provider repeats that late.
KEPT_FOR: Final = 90 * DAY
# How long the recipients of messages that retention deleted are stored. Later complaints and bounces are ignored.
RECIPIENTS_KEPT_FOR: Final = 180 * DAY
FORGET_EVERY: Final = HOUR
MOST_FORGOTTEN: Final = 5_000

# Event types that only others can report. Each of them proves that the provider has received the message, except a
# reply: it may name a Message-ID that an application chose and that others can guess.
REPORTABLE: Final = frozenset(
    {
        EventType.ACCEPTED,
        EventType.DELIVERED,
        EventType.OPENED,
        EventType.CLICKED,
        EventType.BOUNCED,
        EventType.COMPLAINED,
        EventType.NOT_SPAM,
        EventType.UNSUBSCRIBED,
        EventType.DEFERRED,
        EventType.REPLIED,
    }
)

# Deduplication window: two sources report the same open or click with times that differ by less than this.
SAME_ENGAGEMENT: Final = MINUTE

# Verdicts that count for the guard rails of the message's campaign.
INCIDENTS: Final = {
    ContactVerdict.HARD_BOUNCE: Incident.HARD_BOUNCE,
    ContactVerdict.COMPLAINT: Incident.COMPLAINT,
}

# Verdicts that change a contact at once, independently of other reports.
DECISIVE: Final = (ContactVerdict.HARD_BOUNCE, ContactVerdict.COMPLAINT, ContactVerdict.UNSUBSCRIBE)

_FindByOutboxId = Callable[[Runner, Collection[str]], Awaitable[dict[str, ReportedMessage]]]
_Recipient = tuple[str, str, Instant]
_FindByRecipient = Callable[[Runner, Collection[_Recipient]], Awaitable[dict[_Recipient, ReportedMessage]]]

log = logger(__name__)


class Effect(Enum):
    NEW = auto()
    REPEATED = auto()
    UNKNOWN = auto()  # not about one of our messages, so it is ignored


@dataclass(frozen=True, slots=True)
class ReportCounts:
    """The number of new, repeated and unknown reports of one call."""

    new: int = 0
    repeated: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class TakenReports:
    """The results of one transaction's reports."""

    effects: list[Effect]  # in the order of the reports
    never_sent: dict[int, Report]  # by message key: reports about messages that were never handed to a provider
    unknown: list[Report]  # reports that match no stored message
    reporters: frozenset[str]  # providers that reported about messages that they sent
    judgement: Judgement = NO_MACHINES  # the machines among opens and clicks


class Reports:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        soft: SoftBounces | None = None,
        *,
        has_other_subscribers: bool = False,
    ) -> None:
        """Create the recorder. `has_other_subscribers` is true if an external source also has subscribers.

        Then a report may be about a subscriber to whom this installation has sent no message.
        """
        self._database = database
        self._clock = clock
        self._soft = soft or SoftBounces()
        self._has_other_subscribers = has_other_subscribers
        # Callers with and without `by_address` use separate commits.
        self._by_address = self._group_commit(by_address=True)
        self._by_id = self._group_commit(by_address=False)
        self._signatures = UsedSignatures(database, after_commit=self._forget)
        self._provider_events = ProviderEvents(database, clock)
        self._forgets_at: Instant = 0

    async def receive(self, reports: Sequence[Report], *, by_address: bool = False) -> ReportCounts:
        """Record reports and their consequences durably. A repeated call changes nothing.

        Set `by_address` if the source is certainly our provider. Then a report without a message ID is matched with the
        latest message to its address. Reports from other sources need a message ID.
        """
        for report in reports:
            if report.type not in REPORTABLE:
                raise InvalidInput(f"{report.type} is not an event type that providers report", field="type")
        group_commit = self._by_address if by_address else self._by_id
        if len(reports) <= LARGEST_COMMIT:
            effects = await group_commit.submit(reports)
        else:
            batches = await asyncio.gather(*(group_commit.submit(batch) for batch in _batches(reports)))
            effects = [effect for batch in batches for effect in batch]
        counts = [effects.count(effect) for effect in (Effect.NEW, Effect.REPEATED, Effect.UNKNOWN)]
        return ReportCounts(*counts)

    async def use_signature(self, used: UsedSignature) -> None:
        """Raise `ForgedEvent` if any process has received another body with this signature.

        Call it before `receive`.
        """
        await self._signatures.use(used)

    async def close(self) -> None:
        await self._by_id.close()
        await self._by_address.close()
        await self._signatures.close()

    def _group_commit(self, *, by_address: bool) -> GroupCommit[Report, Effect]:
        return GroupCommit(
            lambda reports: self._commit(reports, by_address=by_address),
            after_commit=self._forget,
            max_items=LARGEST_COMMIT,
        )

    async def _commit(self, reports: Sequence[Report], *, by_address: bool) -> list[Effect]:
        now = self._clock.now()

        async def work(tx: Runner) -> TakenReports:
            taken = await take(tx, reports, self._soft, now, by_address=by_address)
            if by_address and self._has_other_subscribers:
                await _keep_for_subscribers(tx, taken.unknown)
            if by_address and taken.never_sent:
                await reported.hold_unsent(tx, taken.never_sent, now)
            await taken.judgement.correct_stored(tx, now)
            return taken

        taken = await self._database.transact(work)
        effects = taken.effects
        await self._provider_events.record(taken.reporters)
        if by_address:
            await unknown_sends.examine(self._database, taken.never_sent, taken.unknown, now)
        for report, effect in zip(reports, effects, strict=True):
            if effect is Effect.NEW:
                metrics.REPORTS.labels(report.source, report.type, report.verdict).inc()
        return effects

    async def _forget(self) -> None:
        """Delete a batch of old reports from time to time."""
        now = self._clock.now()
        if now < self._forgets_at:
            return
        self._forgets_at = now + FORGET_EVERY
        try:
            await forget(self._database, self._soft, now)
        except Exception as error:  # The new reports are already recorded.
            log.warning("old_reports_not_deleted", reason=type(error).__name__)


async def forget(database: Database, soft: SoftBounces, now: Instant) -> int:
    """Delete a batch of old reports, except those that still count, and a batch of old webhook signatures.

    Return the larger of the two numbers. Also delete old recipients of deleted messages.
    """

    async def work(tx: Runner) -> int:
        await forget_recipients(tx, now - RECIPIENTS_KEPT_FOR, MOST_FORGOTTEN)
        signatures = await forget_signatures(tx, now, MOST_FORGOTTEN)
        counted_since = now - soft.days * DAY
        reports = await tx.count(
            FORGET_REPORTS, received_before=now - KEPT_FOR, counted_since=counted_since, most=MOST_FORGOTTEN
        )
        return max(reports, signatures)

    return await database.transact(work)


async def _keep_for_subscribers(tx: Runner, reports: Sequence[Report]) -> None:
    """Keep reports about addresses without a message, until they are compared with the external subscribers.

    Skip reports whose ID has our format but is unknown, because they are about another installation's messages.
    """
    kept = {
        _key(report): {
            "key": _key(report),
            "email": email,
            "source": report.source,
            "verdict": report.verdict,
            "at": report.at,
            "bounce_type": _clean(report.bounce_type),
            "bounce_subtype": _clean(report.bounce_subtype),
        }
        for report in reports
        if report.verdict in DECISIVE and report.outbox_id is None and (email := _normal(report.recipient)) is not None
    }
    if kept:
        await tx.count(KEEP_SUBSCRIBER_REPORTS, reports=list(kept.values()))


def _batches(reports: Sequence[Report]) -> Iterable[Sequence[Report]]:
    return (reports[start : start + LARGEST_COMMIT] for start in range(0, len(reports), LARGEST_COMMIT))


# The functions below process all reports of one transaction together.


@dataclass(frozen=True, slots=True)
class _Taken:
    """A report with the message and the contact that it is about."""

    report: Report
    key: str
    tenant_id: int
    message: ReportedMessage
    email: str | None
    verdict: ContactVerdict
    is_proof: bool
    was_accepted: bool  # whether a provider had accepted the message before this report

    @property
    def name(self) -> tuple[int, str]:
        return self.tenant_id, self.key


async def take(
    tx: Runner,
    reports: Sequence[Report],
    soft: SoftBounces,
    now: Instant,
    *,
    proves: bool = True,
    by_address: bool = False,
) -> TakenReports:
    """Record reports and return the results. `proves`: whether they prove that the provider has the messages.

    If there are opens or clicks among them, the caller corrects the stored ones at the end of the transaction.
    """
    first: dict[str, Report] = {}
    for report in reports:
        first.setdefault(_key(report), report)
    taken = await _understood(tx, first, proves=proves, by_address=by_address)
    neighbours = await _neighbours(tx, taken.values())
    new = await _insert(tx, [one for one in taken.values() if one.key not in neighbours.reported_elsewhere], now)
    judgement = await judge(tx, _responses(new), neighbours.suspects, now)
    await _record(tx, new, judgement, now)
    await _update_contacts(tx, new, soft, now)
    effects = dict.fromkeys(first, Effect.UNKNOWN) | dict.fromkeys(taken, Effect.REPEATED)
    effects |= {one.key: Effect.NEW for one in new}
    unknown = [report for key, report in first.items() if effects[key] is Effect.UNKNOWN]
    never_sent = {
        one.message.message_key: one.report for one in taken.values() if proves and one.message.was_never_sent
    }
    # Bounce emails, tracked links and report sources do not have the name of the provider.
    own = (one for one in taken.values() if not one.report.is_response)
    reporters = frozenset(one.report.source for one in own if one.report.source == one.message.provider)
    return TakenReports(_in_order(reports, effects), never_sent, unknown, reporters, judgement)


async def _understood(
    tx: Runner, reports: Mapping[str, Report], *, proves: bool, by_address: bool
) -> dict[str, _Taken]:
    messages = _in_scope(reports, await _messages(tx, reports, by_address=by_address))
    recipients = await _recipients(tx, reports, messages)
    taken: dict[str, _Taken] = {}
    for key, report in reports.items():
        message = messages.get(key)
        email = recipients.get(key)
        if message is not None and (email is not None or not _needs_recipient(report)):
            verdict = report.verdict if email is not None else ContactVerdict.NOTHING
            is_proof = proves and message.is_certain and report.type is not EventType.REPLIED
            taken[key] = _Taken(report, key, message.tenant_id, message, email, verdict, is_proof, proves)
        else:
            log.info("report_without_message", source=report.source, type=report.type, verdict=report.verdict)
    return taken


def _in_scope(reports: Mapping[str, Report], found: Mapping[str, ReportedMessage]) -> dict[str, ReportedMessage]:
    """Leave out messages that the reporter may not report about, for example those of another tenant."""
    return {
        key: message
        for key, message in found.items()
        if (scope := reports[key].scope) is None or scope.covers(message.tenant_id, message.provider)
    }


async def _messages(tx: Runner, reports: Mapping[str, Report], *, by_address: bool) -> dict[str, ReportedMessage]:
    """Return the message that each report is about. Try the most reliable identification first."""
    found = await _by_outbox_id(tx, reports)
    missing = {key: report for key, report in reports.items() if key not in found}
    found |= await _by_provider_id(tx, missing)
    found |= await _by_outbox_id(tx, _about_contacts(missing, found), reported.find_deleted_by_outbox_id)
    if not by_address:
        return found
    # If the ID has our format but is unknown, the report is about another installation's message.
    missing = {key: report for key, report in missing.items() if key not in found and report.outbox_id is None}
    found |= await _by_recipient(tx, missing)
    return found | await _by_recipient(tx, _about_contacts(missing, found), reported.find_deleted_by_recipient)


def _about_contacts(reports: Mapping[str, Report], found: Mapping[str, ReportedMessage]) -> dict[str, Report]:
    """Return the reports without a message that change a contact. They still count if the message was deleted."""
    return {
        key: report
        for key, report in reports.items()
        if key not in found and report.verdict is not ContactVerdict.NOTHING
    }


async def _by_outbox_id(
    tx: Runner, reports: Mapping[str, Report], find: _FindByOutboxId = reported.find_by_outbox_id
) -> dict[str, ReportedMessage]:
    ids = {report.outbox_id for report in reports.values() if report.outbox_id and is_uuid(report.outbox_id)}
    found = await find(tx, ids)
    return {key: found[report.outbox_id] for key, report in reports.items() if report.outbox_id in found}


async def _by_provider_id(tx: Runner, reports: Mapping[str, Report]) -> dict[str, ReportedMessage]:
    wanted = {key: (report.provider, _plain(report.provider_message_id)) for key, report in reports.items()}
    wanted = {key: name for key, name in wanted.items() if name[1]}
    candidates = await reported.find_by_provider_id(tx, set(wanted.values()))
    return {
        key: _best(candidates[name], _normal(reports[key].recipient))
        for key, name in wanted.items()
        if name in candidates
    }


async def _by_recipient(
    tx: Runner, reports: Mapping[str, Report], find: _FindByRecipient = reported.find_latest_by_recipient
) -> dict[str, ReportedMessage]:
    wanted = {
        key: (report.source, email, report.at)
        for key, report in reports.items()
        if (email := _normal(report.recipient)) is not None
    }
    latest = await find(tx, set(wanted.values()))
    return {key: latest[name] for key, name in wanted.items() if name in latest}


def _best(candidates: Sequence[ReportedMessage], email: str | None) -> ReportedMessage:
    """Return the latest message to this recipient. One request may have sent messages to several recipients."""
    own = [message for message in candidates if message.to_email == email]
    best = max(own or candidates, key=lambda message: message.message_key)
    return replace(best, is_shared=len({message.to_email for message in candidates}) > 1)


async def _recipients(
    tx: Runner, reports: Mapping[str, Report], messages: Mapping[str, ReportedMessage]
) -> dict[str, str]:
    """Return the address that each report is about.

    If the message has one recipient, the report is about it, whatever address it names: forwarded email bounces at
    other addresses, and many complaints hide the address. Otherwise, addresses that the message was not sent to are
    left out.
    """
    recipients: dict[str, str] = {}
    unsure: dict[str, int] = {}
    for key, message in messages.items():
        if reports[key].recipient is not None and _normal(reports[key].recipient) == message.to_email:
            recipients[key] = message.to_email
        elif _is_about_recipient(reports[key]):
            unsure[key] = message.message_key
    if unsure:
        copies = await reported.load_copies(tx, set(unsure.values()))
        for key, message_key in unsure.items():
            if email := _recipient(reports[key], messages[key], copies.get(message_key, messages[key].copies)):
                recipients[key] = email
    return recipients


def _is_about_recipient(report: Report) -> bool:
    """Return whether the report changes the contact, or the message for its recipient."""
    return report.verdict is not ContactVerdict.NOTHING or report.type is EventType.BOUNCED or _needs_recipient(report)


def _needs_recipient(report: Report) -> bool:
    """Return whether the report counts only if the message was sent to the address that it names."""
    return report.recipient is not None and report.scope is not None and report.scope.needs_own_recipient


def _recipient(report: Report, message: ReportedMessage, copies: Collection[str]) -> str | None:
    if not copies and not message.is_shared:
        return message.to_email or None
    email = _normal(report.recipient)
    return email if email in copies else None


async def _insert(tx: Runner, taken: Iterable[_Taken], now: Instant) -> list[_Taken]:
    rows = [_report_row(one) for one in taken]
    if not rows:
        return []
    inserted = {(row.tenant_id, row.key) for row in await tx.run(INSERT_REPORTS, reports=rows, now=now)}
    return [one for one in taken if one.name in inserted]


async def _neighbours(tx: Runner, taken: Iterable[_Taken]) -> Neighbours:
    """Find the opens and clicks that are stored around these reports.

    Our tracked links and the provider can both report the same open or click.
    """
    return await find_neighbours(tx, _responses(taken), SAME_ENGAGEMENT)


def _responses(taken: Iterable[_Taken]) -> list[NewResponse]:
    """Return the reports that can change what is a machine's response."""
    return [
        NewResponse(
            one.key,
            one.message.message_key,
            one.message.sent_at,
            one.report.type,
            one.report.at,
            _clean(one.report.metadata),
            one.report.source,
        )
        for one in taken
        if not one.message.is_deleted and matters(one.report.type, one.report.at, one.message.sent_at)
    ]


async def _record(tx: Runner, new: Sequence[_Taken], judgement: Judgement, now: Instant) -> None:
    """Add events to the timelines of messages that still exist, and settle messages in doubt."""
    new = [one for one in new if not one.message.is_deleted]
    events, proofs = [], []
    for one in new:
        event = Event(one.report.type, one.report.at, {**_metadata(one), **judgement.metadata_of(one.key)})
        events.append(event_row(one.message.message_key, one.tenant_id, event))
        if one.is_proof:
            message_id = _plain(one.report.provider_message_id)
            proofs.append(SentProof(one.message.message_key, one.tenant_id, one.report.type, message_id))
    if events:
        await append_events(tx, events)
    await record_proofs(tx, proofs, now)
    await record_bounces(tx, _bounced_messages(new))
    incidents = [(one, INCIDENTS[one.verdict]) for one in new if one.verdict in INCIDENTS]
    # Bounced copies do not count.
    own = [(one.message.message_key, kind) for one, kind in incidents if one.email == one.message.to_email]
    await record_incidents(tx, own)
    await withdraw_complaints(tx, [one.message.message_key for one in new if one.report.type is EventType.NOT_SPAM])


def _bounced_messages(new: Sequence[_Taken]) -> dict[int, Instant]:
    """Return when messages bounced that a provider had accepted, by message key. Bounced copies do not count."""
    bounced: dict[int, Instant] = {}
    for one in new:
        if one.was_accepted and one.report.type is EventType.BOUNCED and one.email == one.message.to_email:
            key = one.message.message_key
            bounced[key] = min(one.report.at, bounced.get(key, one.report.at))
    return bounced


async def _update_contacts(tx: Runner, new: Sequence[_Taken], soft: SoftBounces, now: Instant) -> None:
    facts = [fact for one in new if one.email is not None and (fact := _fact(one, one.email)) is not None]
    softly = [
        (one.tenant_id, one.email, one.report.at)
        for one in new
        if one.email and one.verdict is ContactVerdict.SOFT_BOUNCE
    ]
    if softly:
        # Lock the contacts before counting, so that the second of two concurrent reports counts both.
        await status.lock_known_contacts(tx, {fact.contact for fact in facts} | {(each[0], each[1]) for each in softly})
        facts += await status.repeated_soft_bounces(tx, softly, soft)
    await status.apply_facts(tx, facts, now)


def _fact(one: _Taken, email: str) -> StatusFact | None:
    report = one.report
    return status.verdict_fact(
        one.verdict,
        one.tenant_id,
        email,
        source=report.source,
        at=report.at,
        bounce_type=_clean(report.bounce_type),
        bounce_subtype=_clean(report.bounce_subtype),
    )


def _key(report: Report) -> str:
    """Return a key that is unique across sources."""
    return f"{report.source}:{_plain(report.key)}"


def _report_row(one: _Taken) -> dict[str, Any]:
    return {
        "tenant_id": one.tenant_id,
        "key": one.key,
        "message_key": None if one.message.is_deleted else one.message.message_key,
        "email": one.email,
        "type": one.report.type,
        "verdict": one.verdict,
        "at": one.report.at,
        "is_proof": int(one.is_proof),
    }


def _metadata(one: _Taken) -> dict[str, Any]:
    report = one.report
    fields = {
        "source": report.source,
        "recipient": address.mask(address.split_mailbox(report.recipient)[1]) if report.recipient else None,
        "providerMessageId": _plain(report.provider_message_id),
        "bounceType": _clean(report.bounce_type),
        "bounceSubtype": _clean(report.bounce_subtype),
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return {**_clean(report.metadata), **known}


def _clean(value: Any) -> Any:
    """Clean a value from a provider and mask addresses."""
    return _masked(_plain(value))


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return mask_addresses(value)
    if isinstance(value, Mapping):
        return {name: _masked(each) for name, each in value.items()}
    return [_masked(each) for each in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Remove the characters that databases do not accept: NUL and invalid characters."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_plain(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _normal(text: str | None) -> str | None:
    return None if text is None else address.normal_mailbox(text)


def _in_order(reports: Sequence[Report], effects: dict[str, Effect]) -> list[Effect]:
    ordered: list[Effect] = []
    for report in reports:
        key = _key(report)
        ordered.append(effects[key])
        if effects[key] is Effect.NEW:
            effects[key] = Effect.REPEATED  # The next copy of this report in the same call is a repeat.
    return ordered
