"""The responses to a campaign by recipient domain, by mailbox provider, and by the time until the response."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Subquery, case, func, literal, not_, select

from mailwright.audience.responses import IS_MACHINE, IS_RESPONSE, IS_WITHDRAWN
from mailwright.domain.address import domain_of
from mailwright.domain.clock import DAY, HOUR, MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.recipient_providers import RecipientProvider, provider_of
from mailwright.domain.states import EventType, Status
from mailwright.outbox.tallies import MACHINE
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import position
from mailwright.storage.tables import deliveries, events, messages

# The ends of the intervals in which responses are counted; the last interval has no end.
DELAYS: Final = (10 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 3 * DAY, 7 * DAY)
# Smaller domains are added up.
MAX_DOMAINS: Final = 50


@dataclass(frozen=True, slots=True)
class DomainResults:
    """The recipients of one domain or mailbox provider. Each recipient counts once in each field."""

    name: str
    sent: int = 0  # accepted by the provider, including those that bounced later
    bounced: int = 0
    opened: int = 0
    clicked: int = 0
    machine_opened: int = 0
    machine_clicked: int = 0
    complained: int = 0
    unsubscribed: int = 0

    def __add__(self, other: "DomainResults") -> "DomainResults":
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in COUNTED})


COUNTED: Final = tuple(name for name in DomainResults.__slots__ if name != "name")
_FIELDS: Final = {
    EventType.OPENED: "opened",
    EventType.CLICKED: "clicked",
    f"{MACHINE}{EventType.OPENED}": "machine_opened",
    f"{MACHINE}{EventType.CLICKED}": "machine_clicked",
    EventType.COMPLAINED: "complained",
    EventType.UNSUBSCRIBED: "unsubscribed",
}


@dataclass(frozen=True, slots=True)
class DelayInterval:
    """The number of recipients who first opened and first clicked within this time after their email was sent, in
    milliseconds.
    """

    begins: Instant
    ends: Instant | None  # None: there is no end
    opened: int
    clicked: int


@dataclass(frozen=True, slots=True)
class ResponseBreakdown:
    """Largest first. `domains` has at most `MAX_DOMAINS` entries, and `other_domains` adds up the rest."""

    providers: tuple[DomainResults, ...]
    domains: tuple[DomainResults, ...]
    other_domains: DomainResults | None
    delays: tuple[DelayInterval, ...]


async def load_breakdown(tx: Transaction, campaign_key: int) -> ResponseBreakdown:
    responses = await tx.execute(_responses(campaign_key))
    domains = _by_domain(await tx.execute(_sent(campaign_key)), responses)
    ranked = sorted(domains.values(), key=lambda each: (-each.sent, each.name))
    shown, rest = ranked[:MAX_DOMAINS], ranked[MAX_DOMAINS:]
    return ResponseBreakdown(
        providers=_by_provider(ranked),
        domains=tuple(shown),
        other_domains=sum(rest, DomainResults("")) if rest else None,
        delays=_delays(responses),
    )


def _first_responses(campaign_key: int) -> Subquery:
    """Select the first response of each type of each recipient. Opens and clicks by machines have their own types."""
    is_engagement = events.c.type.in_([EventType.OPENED, EventType.CLICKED])
    type_ = case((is_engagement & IS_MACHINE, literal(MACHINE).concat(events.c.type)), else_=events.c.type)
    found = (
        select(messages.c.id.label("message_key"), messages.c.to_email, type_.label("type"), events.c.created_at)
        .join_from(messages, events, events.c.message_key == messages.c.id)
        .where(messages.c.campaign_key == campaign_key, IS_RESPONSE, not_(IS_WITHDRAWN))
        .subquery("response")
    )
    columns = (found.c.message_key, found.c.to_email, found.c.type)
    return select(*columns, func.min(found.c.created_at).label("at")).group_by(*columns).subquery("first_response")


# PostgreSQL groups by columns of a subquery, because it cannot see that two expressions with parameters are equal.


def _responses(campaign_key: int) -> Select[Any]:
    """Count the first responses by domain, type and interval."""
    first = _first_responses(campaign_key)
    sent_at = func.coalesce(deliveries.c.sent_at, deliveries.c.attempted_at, first.c.at)
    delay = first.c.at - sent_at
    interval = case(*((delay < end, number) for number, end in enumerate(DELAYS)), else_=len(DELAYS))
    found = (
        select(_domain(first.c.to_email).label("domain"), first.c.type, interval.label("interval"))
        .join_from(first, deliveries, deliveries.c.message_key == first.c.message_key)
        .subquery("delayed_response")
    )
    return select(*found.c, func.count().label("messages")).group_by(*found.c)


def _sent(campaign_key: int) -> Select[Any]:
    """Count the messages that a provider accepted by domain, and those of them that bounced."""
    found = (
        select(_domain(messages.c.to_email).label("domain"), deliveries.c.bounced_at)
        .join_from(messages, deliveries, deliveries.c.message_key == messages.c.id)
        .where(messages.c.campaign_key == campaign_key, deliveries.c.status == Status.SENT)
        .subquery("sent_message")
    )
    counts = (func.count().label("sent"), func.count(found.c.bounced_at).label("bounced"))
    return select(found.c.domain, *counts).group_by(found.c.domain)


def _domain(email: ColumnElement[str]) -> ColumnElement[str]:
    return func.substr(email, position(email, "@") + 1)


def _by_domain(sent: Sequence[Any], responses: Iterable[Any]) -> dict[str, DomainResults]:
    counts: dict[str, Counter[str]] = {}
    for row in sent:
        counts.setdefault(domain_of(row.domain), Counter()).update(sent=row.sent, bounced=row.bounced)
    for row in responses:
        if (field := _FIELDS.get(row.type)) is not None:
            counts.setdefault(domain_of(row.domain), Counter())[field] += row.messages
    return {domain: DomainResults(domain, **numbers) for domain, numbers in counts.items()}


def _by_provider(domains: Iterable[DomainResults]) -> tuple[DomainResults, ...]:
    found: dict[RecipientProvider, DomainResults] = {}
    for each in domains:
        provider = provider_of(each.name)
        found[provider] = found.get(provider, DomainResults(provider)) + each
    order = list(RecipientProvider)
    return tuple(sorted(found.values(), key=lambda each: order.index(RecipientProvider(each.name))))


def _delays(responses: Iterable[Any]) -> tuple[DelayInterval, ...]:
    counts: Counter[tuple[str, int]] = Counter()
    for row in responses:
        counts[row.type, row.interval] += row.messages
    begins: Mapping[int, Instant] = dict(enumerate((0, *DELAYS)))
    return tuple(
        DelayInterval(
            begins[number],
            DELAYS[number] if number < len(DELAYS) else None,
            counts[EventType.OPENED, number],
            counts[EventType.CLICKED, number],
        )
        for number in begins
    )
