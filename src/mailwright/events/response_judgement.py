"""Recognise machines among new opens and clicks, together with those that are already stored.

A visit that unsubscribed its visitor counts as a click. If it turns out to be a machine's, the contact is subscribed
again.

A response without another one close to it, which is by far the most common case, needs no further statement.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Final

from mailwright.audience import status
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.machines import TOO_SOON, is_too_soon
from mailwright.domain.states import EventType
from mailwright.events.tracking.bursts import (
    INVISIBLE_LINK_GAP,
    SCANNED_AFTER_DELIVERY,
    SCANNED_BEFORE_DELIVERY,
    UNSUBSCRIBE_LINK,
    EmailResponse,
    MachineReason,
    find_machines,
    follows_other_links,
)
from mailwright.outbox.machine_responses import (
    ENGAGEMENT,
    StoredResponse,
    correct_responses,
    load_responses,
    lock_responses,
)
from mailwright.storage.hot import Runner
from mailwright.storage.statements import statement

FIND_REPORTED_ELSEWHERE = statement(__package__, "find_reported_elsewhere")

# How long after a visit it can still turn out to be a machine's. Later, the contact stays unsubscribed.
VISIT_REVERTED_WITHIN: Final[Instant] = 10 * MINUTE


@dataclass(frozen=True, slots=True)
class NewResponse:
    """An open, a click or a delivery that is about to be recorded."""

    key: str  # Of its report.
    message_key: int
    sent_at: Instant | None
    type: EventType
    at: Instant
    metadata: Mapping[str, Any]
    source: str

    @property
    def is_open_or_click(self) -> bool:
        return self.type in ENGAGEMENT

    @property
    def is_suspect_alone(self) -> bool:
        is_person = self.is_open_or_click and self.metadata.get("isMachine") is not True
        return is_person and is_too_soon(self.at, self.sent_at)

    @property
    def reach(self) -> Instant:
        return INVISIBLE_LINK_GAP if self.is_open_or_click else SCANNED_BEFORE_DELIVERY


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What is stored around new responses, each by the key of its report."""

    reported_elsewhere: frozenset[str] = frozenset()  # Another source has reported the same open or click.
    suspects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The machines among new responses, by the key of the report, and those among the stored ones."""

    reasons: Mapping[str, MachineReason] = field(default_factory=dict)
    stored: Sequence[StoredResponse] = ()
    corrections: Mapping[int, MachineReason] = field(default_factory=dict)

    def metadata_of(self, key: str) -> dict[str, Any]:
        """Return what the event of a new response says about the machine."""
        return {} if key not in self.reasons else {"isMachine": True, "machineReason": self.reasons[key]}

    async def correct_stored(self, tx: Runner, now: Instant) -> None:
        """Correct the stored responses. Call it last in the transaction, because other transactions wait."""
        if self.corrections:
            messages = {each.message_key for each in self.stored if each.event_key in self.corrections}
            stored = [each for each in self.stored if each.message_key in messages]
            for each in stored:
                if each.event_key in self.corrections and each.visited_list is not None:
                    await status.revert_visit(
                        tx, each.tenant_id, each.to_email, each.visited_list, at=each.created_at, now=now
                    )
            await correct_responses(tx, stored, self.corrections, now)


NO_MACHINES: Final = Judgement()


def matters(type_: EventType, at: Instant, sent_at: Instant | None) -> bool:
    """Return whether a report can change what is a machine's response. Soon after sending, deliveries cannot."""
    if type_ is EventType.DELIVERED:
        return sent_at is not None and at - sent_at > TOO_SOON - SCANNED_AFTER_DELIVERY
    return type_ in ENGAGEMENT


async def find_neighbours(tx: Runner, responses: Collection[NewResponse], window: Instant) -> Neighbours:
    """Find the responses that another source has reported within `window`, and those that a machine may have made."""
    if not responses:
        return Neighbours()
    # Each of two processes that record clicks of the same message at once must see the click of the other.
    await lock_responses(tx, {each.message_key for each in responses})
    rows = [
        {
            "key": each.key,
            "message_key": each.message_key,
            "type": each.type,
            "at": each.at,
            "source": each.source,
            "reach": each.reach,
        }
        for each in responses
    ]
    found = await tx.run(FIND_REPORTED_ELSEWHERE, reports=rows, window=window, scan=SCANNED_BEFORE_DELIVERY)
    return Neighbours(
        frozenset(row.key for row in found if row.is_known), frozenset(row.key for row in found if row.is_suspect)
    )


async def is_machine_visit(tx: Runner, visit: NewResponse, others: Iterable[NewResponse]) -> bool:
    """Return whether a visit of the unsubscribe link may be a machine's.

    It is judged with the stored responses and with `others` of the same message.
    """
    new, stored = [visit, *others], await load_responses(tx, [visit.message_key])
    responses = _responses(new, stored)
    return -1 in _find_machines(new, stored) or follows_other_links(responses[0], responses)


async def judge(tx: Runner, new: Iterable[NewResponse], suspects: Collection[str], now: Instant) -> Judgement:
    """Judge new responses. `suspects` has the keys of those that are close to a stored one."""
    by_message = {
        key: group
        for key, each in groupby(sorted(new, key=attrgetter("message_key", "at")), attrgetter("message_key"))
        if _is_suspect(group := list(each), suspects)
    }
    if not by_message:
        return NO_MACHINES
    stored = await load_responses(tx, by_message)
    reasons: dict[str, MachineReason] = {}
    corrections: dict[int, MachineReason] = {}
    for key, group in by_message.items():
        known = [each for each in stored if each.message_key == key]
        found = _find_machines(group, known)
        reasons |= {each.key: found[-number] for number, each in enumerate(group, 1) if -number in found}
        corrections |= {
            each.event_key: found[each.event_key]
            for each in known
            if each.event_key in found and not each.is_machine and not _is_old_visit(each, now)
        }
    return Judgement(reasons, stored, corrections)


def _is_suspect(group: Sequence[NewResponse], suspects: Collection[str]) -> bool:
    """Return whether a machine may have made a response of one message. The group is in the order of time."""
    if any(each.key in suspects or each.is_suspect_alone for each in group):
        return True
    reach = max(each.reach for each in group)
    clicks = any(each.type is EventType.CLICKED for each in group)
    return clicks and any(second.at - first.at <= reach for first, second in pairwise(group))


def _is_old_visit(response: StoredResponse, now: Instant) -> bool:
    return response.visited_list is not None and now - response.created_at > VISIT_REVERTED_WITHIN


def _find_machines(new: Sequence[NewResponse], stored: Sequence[StoredResponse]) -> dict[int, MachineReason]:
    """Judge all responses of one message."""
    delivered = [each.at for each in new if not each.is_open_or_click]
    delivered += [each.created_at for each in stored if each.type == EventType.DELIVERED]
    return find_machines(_responses(new, stored), new[0].sent_at, delivered)


def _responses(new: Sequence[NewResponse], stored: Sequence[StoredResponse]) -> list[EmailResponse]:
    """Return all opens and clicks of one message. New ones have negative numbers as keys, from -1 on."""
    responses = [
        _response(-number, each.type, each.at, each.metadata)
        for number, each in enumerate(new, 1)
        if each.is_open_or_click
    ]
    responses += [
        _response(each.event_key, each.type, each.created_at, each.values)
        for each in stored
        if each.type in ENGAGEMENT or each.visited_list is not None
    ]
    return responses


def _response(key: int, type_: str, at: Instant, metadata: Mapping[str, Any]) -> EmailResponse:
    if type_ == EventType.UNSUBSCRIBED:
        return EmailResponse(key, at, is_click=True, url=UNSUBSCRIBE_LINK)
    is_invisible_link = metadata.get("isInvisibleLink") is True
    return EmailResponse(key, at, type_ == EventType.CLICKED, metadata.get("url"), is_invisible_link)
