"""Emails that will share the limits of queued campaigns: emails of sequences, and the next occurrences of recurring
campaigns.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson
from sqlalchemy import select

from mailwright.domain.campaign import SCHEDULED
from mailwright.domain.clock import DAY, HOUR, Instant
from mailwright.domain.message import Source
from mailwright.domain.permits import Deferral
from mailwright.domain.provider_routes import ProviderRoutes
from mailwright.outbox.limits import LimitRules
from mailwright.sources.campaigns.checks import count_recipients
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.forecast_drafts import ForecastDraft, queued_draft
from mailwright.sources.campaigns.forecast_values import ForecastKind, QueuedCampaign
from mailwright.sources.campaigns.repeat_records import find_place
from mailwright.sources.recurrence_fields import ScheduleFields
from mailwright.sources.sequences.expected_emails import ExpectedEmails, count_expected
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaign_repeats, campaigns, queue_entries, tenants

# How far ahead such emails are counted.
MAX_AHEAD: Final[Instant] = 31 * DAY
# Emails of sequences that are due later than this are simulated by day instead of by hour.
_HOURLY: Final[Instant] = 2 * DAY


class ExpectedSends(NamedTuple):
    """Emails that are sent before the campaigns of the same tenant, and emails that are sent after them."""

    sequences: list[QueuedCampaign]
    occurrences: list[QueuedCampaign]


NOTHING_EXPECTED: Final = ExpectedSends([], [])


class ExpectedContext(NamedTuple):
    """The data that the emails of sequences and recurring campaigns depend on."""

    rules: LimitRules
    routes: ProviderRoutes
    zone: str  # the time zone of the installation
    now: Instant


async def load_expected(tx: Transaction, context: ExpectedContext, until: Instant) -> ExpectedSends:
    """Return the emails that are due until a time, in the places where workers serve them.

    A tenant's sequences come before its campaigns; a recurring campaign is queued behind the campaigns of today.
    """
    emails = await count_expected(tx, context.now, until)
    sequences = list(_of_sequences(emails, context))
    occurrences = [each async for each in _occurrences(tx, context, until)]
    known = await _load_tenants(tx, {each.tenant_id for each in (*sequences, *occurrences)})
    return ExpectedSends(*([_of_tenant(each, known) for each in found] for found in (sequences, occurrences)))


def _of_sequences(emails: Iterable[ExpectedEmails], context: ExpectedContext) -> Iterator[QueuedCampaign]:
    """Join the emails of each tenant that are due in the same hour or, later, on the same day."""
    now = context.now
    amounts: dict[tuple[int, Instant, Instant], float] = {}
    begins: dict[tuple[int, Instant, Instant], Instant] = {}
    for each in emails:
        ahead = max(0, each.due_at - now)
        length = HOUR if ahead < _HOURLY else DAY
        key = (each.tenant_id, length, 0 if ahead == 0 else 1 + ahead // length)
        amounts[key] = amounts.get(key, 0.0) + each.emails
        begins[key] = min(begins.get(key, each.due_at), each.due_at)
    for key in sorted(amounts):
        tenant_id, due_at, remaining = key[0], begins[key], round(amounts[key])
        if remaining:
            yield QueuedCampaign(
                campaign_id=f"sequences {key}",
                name="",
                tenant_id=tenant_id,
                remaining=remaining,
                tenant=context.rules.levels(tenant_id, 0)[0],
                deferral=Deferral(due_at, SCHEDULED) if due_at > now else None,
                provider=context.routes.provider_of(tenant_id, Source.SEQUENCE),
                kind=ForecastKind.SEQUENCES,
            )


async def _occurrences(tx: Transaction, context: ExpectedContext, until: Instant) -> AsyncIterator[QueuedCampaign]:
    """Yield the times of recurring campaigns, each with the size of the last audience."""
    r, c, e = campaign_repeats.c, campaigns.c, queue_entries.c
    query = (
        select(c.campaign_id, c.definition, r.tenant_id, r.schedule, r.next_at, e.planned)
        .join_from(campaign_repeats, campaigns, c.id == r.campaign_key)
        .outerjoin(queue_entries, e.campaign_key == r.last_campaign_key)
        .where(r.paused_at.is_(None), r.next_at <= until, c.deleted_at.is_(None))
    )
    for row in await tx.execute(query.order_by(r.next_at, r.id)):
        definition = CampaignDefinition.model_validate_json(row.definition)
        schedule = ScheduleFields.model_validate(orjson.loads(row.schedule))
        place = await find_place(tx, row.tenant_id, schedule, context.zone)
        planned = row.planned
        if planned is None:  # It was never sent, or the last time was skipped.
            planned = await count_recipients(tx, row.tenant_id, definition, context.now)
        at = max(row.next_at, context.now)
        while at <= until:
            occurrence = definition.model_copy(update={"scheduled_at": at})
            draft = ForecastDraft(occurrence, row.tenant_id, planned, f"{row.campaign_id} {at}")
            queued = queued_draft(draft, context.rules, context.routes, context.now)
            yield replace(queued, kind=ForecastKind.OCCURRENCE)
            at = schedule.recurrence.next_from(at + 1, place)


async def _load_tenants(tx: Transaction, keys: Collection[int]) -> dict[int, Any]:
    t = tenants.c
    rows = await tx.execute(select(t.id, t.weight, t.max_in_flight).where(t.id.in_(keys))) if keys else ()
    return {row.id: row for row in rows}


def _of_tenant(queued: QueuedCampaign, known: dict[int, Any]) -> QueuedCampaign:
    tenant = known[queued.tenant_id]
    return replace(queued, weight=tenant.weight, max_in_flight=tenant.max_in_flight)
