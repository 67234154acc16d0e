"""Create a segment from a bar of a campaign's report, for example of everyone who clicked a link."""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

import orjson

from mailwright.audience import segments
from mailwright.audience.segments import Segment, SegmentExists
from mailwright.domain.clock import Clock
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.recipient_providers import RecipientProvider, domains_of
from mailwright.sources.campaigns.records import Campaign
from mailwright.storage.database import Database


class SegmentOf(StrEnum):
    """The recipients of a campaign that a segment contains."""

    SENT = "sent"
    OPENED = "opened"
    CLICKED = "clicked"
    ENGAGED = "engaged"  # opened or clicked
    DID_NOT_OPEN = "did_not_open"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    UNSUBSCRIBED = "unsubscribed"


_LABELS: Final = {
    SegmentOf.SENT: "Received",
    SegmentOf.OPENED: "Opened",
    SegmentOf.CLICKED: "Clicked",
    SegmentOf.ENGAGED: "Opened or clicked",
    SegmentOf.DID_NOT_OPEN: "Did not open",
    SegmentOf.BOUNCED: "Bounced",
    SegmentOf.COMPLAINED: "Complained about",
    SegmentOf.UNSUBSCRIBED: "Unsubscribed through",
}
_ENGAGED: Final = (SegmentOf.OPENED, SegmentOf.CLICKED)


@dataclass(frozen=True, slots=True)
class ReportBar:
    """A bar of a chart, or a row of a table, in a report. The fields after `of` narrow it."""

    of: SegmentOf
    url: str | None = None  # of clicks only
    domain: str | None = None
    provider: RecipientProvider | None = None
    after_minutes: int | None = None  # of opens and clicks: how long after sending
    before_minutes: int | None = None


async def create_segment(
    database: Database,
    clock: Clock,
    campaign: Campaign,
    bar: ReportBar,
    *,
    actor: str,
    segment_key: str | None = None,
    name: str | None = None,
) -> Segment:
    """Create the segment, or return the one that was created from the same bar before."""
    filter_ = bar_filter(campaign.campaign_id, bar)
    digest = sha256(orjson.dumps(filter_, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]
    key = segment_key or f"{bar.of.replace('_', '-')}-{digest}"
    try:
        return await segments.create(
            database,
            clock,
            campaign.tenant_id,
            key,
            filter_=filter_,
            name=name or _name(campaign, bar),
            actor=actor,
        )
    except SegmentExists:
        known = await segments.find(database, campaign.tenant_id, key)
        if known.filter != filter_:
            raise
        return known


def bar_filter(campaign_id: str, bar: ReportBar) -> dict[str, Any]:
    """Return the filter for the recipients of a bar."""
    if bar.url is not None and bar.of is not SegmentOf.CLICKED:
        raise InvalidInput("A link can narrow only clicks.", field="url")
    if (bar.after_minutes, bar.before_minutes) != (None, None) and bar.of not in _ENGAGED:
        raise InvalidInput("A time after sending can narrow only opens and clicks.", field="afterMinutes")
    conditions: list[dict[str, Any]] = [_response(campaign_id, bar)]
    if bar.domain is not None:
        conditions.append({"domain": bar.domain})
    if bar.provider is not None:
        conditions.append(_at_provider(bar.provider))
    return conditions[0] if len(conditions) == 1 else {"all": conditions}


def _response(campaign_id: str, bar: ReportBar) -> dict[str, Any]:
    if bar.of is SegmentOf.DID_NOT_OPEN:
        return {"didNotOpen": {"campaign": campaign_id}}
    if bar.of is SegmentOf.ENGAGED:
        return {"any": [{each.value: {"campaign": campaign_id}} for each in _ENGAGED]}
    bounds = {"url": bar.url, "afterMinutes": bar.after_minutes, "beforeMinutes": bar.before_minutes}
    return {
        bar.of.value: {"campaign": campaign_id, **{name: each for name, each in bounds.items() if each is not None}}
    }


def _at_provider(provider: RecipientProvider) -> dict[str, Any]:
    at_one = {"any": _at_domains(domains_of(provider))}
    return {"not": at_one} if provider is RecipientProvider.OTHER else at_one


def _at_domains(domains: Sequence[str]) -> list[dict[str, Any]]:
    return [{"domain": domain} for domain in domains]


def _name(campaign: Campaign, bar: ReportBar) -> str:
    place = bar.domain or (bar.provider and f"{bar.provider}") or ""
    times = [str(each) for each in (bar.after_minutes, bar.before_minutes) if each is not None]
    details = [detail for detail in (place, bar.url or "", f"{'-'.join(times)} min" if times else "") if detail]
    text = f"{_LABELS[bar.of]} {campaign.name}" + (f" ({', '.join(details)})" if details else "")
    return "".join(character for character in text if character.isprintable())[: segments.MAX_NAME_LENGTH]
