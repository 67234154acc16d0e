"""Count the recipients of a draft who would not receive it at once: they reached the frequency cap, or paused email."""

from typing import Any, Final

from sqlalchemy import Select, func, or_, select

from mailwright.content.presend_checks import IssueLevel, PresendIssue
from mailwright.domain.clock import Instant
from mailwright.domain.frequency import FrequencyCap, parse_frequency_cap
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.permits import Limits
from mailwright.domain.states import Status
from mailwright.outbox.limits import load_tenant_limits, parse_campaign_limits
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.storage.database import Database
from mailwright.storage.tables import bulk_sends, contacts, deliveries

_COUNTED = (Status.SENT_ATTEMPT, Status.SENT, Status.IN_DOUBT, Status.CLOSED_UNKNOWN)


@dataclass(frozen=True, slots=True)
class HeldRecipients:
    """Recipients at the send time. Those who paused email are not counted under `capped`."""

    planned: int = 0
    capped: int = 0
    snoozed: int = 0
    cap: FrequencyCap | None = None

    @property
    def warnings(self) -> list[PresendIssue]:
        later = "An email that waits longer than the lifetime of bulk email is not sent."
        found = []
        if self.capped and self.cap is not None:
            reached = f"reached the frequency cap ({self.cap.limit} per {self.cap.days} days) and wait"
            ignore = "Raise the cap, or let the campaign ignore it with a reason."
            found.append(("FREQUENCY_CAP", f"{self._share(self.capped)} {reached}. {later} {ignore}"))
        if self.snoozed:
            found.append(("SNOOZED", f"{self._share(self.snoozed)} paused bulk email and wait. {later}"))
        return [PresendIssue(IssueLevel.WARNING, code, sentence, "audience") for code, sentence in found]

    def _share(self, number: int) -> str:
        return f"{number:,} of {self.planned:,} recipients have"


NOBODY_HELD: Final = HeldRecipients()


async def count_held(
    database: Database,
    definition: CampaignDefinition,
    members: Select[Any],
    planned: int,
    *,
    tenant_id: int,
    now: Instant,
    limits: Limits,
) -> HeldRecipients:
    """Count them with the cap that applies to the campaign, at its send time."""
    begins_at = max(now, definition.scheduled_at or now)
    tenant = (await load_tenant_limits(database, limits)).get(tenant_id, limits)
    own = parse_campaign_limits(definition.limits.model_dump_json(by_alias=False), tenant, now)
    cap = parse_frequency_cap(own.frequency_cap)
    is_snoozed = func.coalesce(contacts.c.snoozed_until, 0) > begins_at
    async with database.read() as tx:
        snoozed = int((await tx.execute(members.where(is_snoozed).add_columns(func.count())))[0][0])
        if cap is None:
            return HeldRecipients(planned, snoozed=snoozed)
        reached = contacts.c.email.in_(_reached(cap, tenant_id, begins_at))
        capped = int((await tx.execute(members.where(~is_snoozed, reached).add_columns(func.count())))[0][0])
    return HeldRecipients(planned, capped, snoozed, cap)


def _reached(cap: FrequencyCap, tenant_id: int, begins_at: Instant) -> Select[Any]:
    """Select the addresses that have received as many bulk emails as the cap allows, as workers count them."""
    counts = or_(
        deliveries.c.message_key.is_(None),
        deliveries.c.in_doubt_since.is_not(None),
        deliveries.c.status.in_(_COUNTED),
    )
    return (
        select(bulk_sends.c.email)
        .outerjoin(deliveries, deliveries.c.message_key == bulk_sends.c.message_key)
        .where(bulk_sends.c.tenant_id == tenant_id, bulk_sends.c.sent_at > begins_at - cap.window, counts)
        .group_by(bulk_sends.c.email)
        .having(func.count() >= cap.limit)
    )
