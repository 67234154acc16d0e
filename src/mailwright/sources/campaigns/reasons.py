"""Why messages of a campaign bounced or failed, and why recipients complained or unsubscribed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from sqlalchemy import func, not_, select

from mailwright.audience.responses import IS_RESPONSE, IS_WITHDRAWN
from mailwright.domain.buckets import SUPPRESSED_CODES
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType, Status
from mailwright.storage.database import Transaction
from mailwright.storage.tables import deliveries, events, messages

# Rarer reasons are added up.
MAX_REASONS: Final = 10
OTHER: Final = "other"
_UNKNOWN: Final = "unknown"
_EXPLAINED: Final = (EventType.BOUNCED, EventType.COMPLAINED, EventType.UNSUBSCRIBED)
# The metadata fields with the reason of an event, and those with an explanation.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    EventType.BOUNCED: ("bounceType", "bounceSubtype", "status"),
    EventType.COMPLAINED: ("feedbackType", "subType"),
    EventType.UNSUBSCRIBED: ("source",),
}
_EXPLANATIONS: Final = ("diagnosticCode", "reason", "errorMessage", "response")
_MAX_EXAMPLE_LENGTH: Final = 300


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason and the number of its recipients. `example` is the response of a server for one of them."""

    name: str
    recipients: int
    example: str | None = None


@dataclass(frozen=True, slots=True)
class CampaignReasons:
    """Most frequent first."""

    bounces: tuple[Reason, ...] = ()
    complaints: tuple[Reason, ...] = ()
    unsubscribes: tuple[Reason, ...] = ()
    failures: tuple[Reason, ...] = ()


async def load_reasons(tx: Transaction, campaign_key: int, lane: int) -> CampaignReasons:
    query = (
        select(events.c.message_key, events.c.type, events.c.metadata)
        .join_from(messages, events, events.c.message_key == messages.c.id)
        .where(messages.c.campaign_key == campaign_key, IS_RESPONSE, events.c.type.in_(_EXPLAINED), not_(IS_WITHDRAWN))
        .order_by(events.c.id)
    )
    # A message that bounced several times counts with its last reason.
    last: dict[tuple[str, int], dict[str, Any]] = {}
    for row in await tx.execute(query):
        last[row.type, row.message_key] = orjson.loads(row.metadata)
    by_type: dict[str, list[tuple[str, str | None]]] = {type_: [] for type_ in _EXPLAINED}
    for (type_, _), metadata in last.items():
        by_type[type_].append((_name(type_, metadata), _example(metadata)))
    return CampaignReasons(
        bounces=_ranked(by_type[EventType.BOUNCED]),
        complaints=_ranked(by_type[EventType.COMPLAINED]),
        unsubscribes=_ranked(by_type[EventType.UNSUBSCRIBED]),
        failures=await _failures(tx, lane),
    )


async def _failures(tx: Transaction, lane: int) -> tuple[Reason, ...]:
    d = deliveries.c
    query = select(d.error_code, func.count().label("messages"), func.max(d.error_reason).label("example")).where(
        d.lane == lane, d.status == Status.FAILED, func.coalesce(d.error_code, "").not_in(SUPPRESSED_CODES)
    )
    rows = await tx.execute(query.group_by(d.error_code))
    found = [Reason(row.error_code or _UNKNOWN, row.messages, row.example) for row in rows]
    return _shortened(sorted(found, key=_rank))


def _name(type_: str, metadata: Mapping[str, Any]) -> str:
    parts = [str(metadata[name]) for name in _NAMES[type_] if metadata.get(name)]
    return " · ".join(dict.fromkeys(parts)) or str(metadata.get("source") or _UNKNOWN)


def _example(metadata: Mapping[str, Any]) -> str | None:
    found = next((str(metadata[name]) for name in _EXPLANATIONS if metadata.get(name)), None)
    return None if found is None else " ".join(found.split())[:_MAX_EXAMPLE_LENGTH]


def _ranked(named: Iterable[tuple[str, str | None]]) -> tuple[Reason, ...]:
    numbers: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for name, example in named:
        numbers[name] += 1
        if example is not None:
            examples.setdefault(name, example)
    return _shortened(sorted((Reason(name, n, examples.get(name)) for name, n in numbers.items()), key=_rank))


def _shortened(reasons: list[Reason]) -> tuple[Reason, ...]:
    rest = sum(each.recipients for each in reasons[MAX_REASONS:])
    return (*reasons[:MAX_REASONS], *([Reason(OTHER, rest)] if rest else []))


def _rank(reason: Reason) -> tuple[int, str]:
    return -reason.recipients, reason.name
