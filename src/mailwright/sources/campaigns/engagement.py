"""Opens and clicks of a campaign, separately for people and machines, and by link."""

from collections.abc import Mapping, Sequence

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import EventType
from mailwright.outbox.tallies import MACHINE, LinkTally, count_campaign_events, load_link_tallies, load_untallied
from mailwright.storage.database import Transaction


@dataclass(frozen=True, slots=True)
class EngagementCounts:
    """`people` and `machines` count each recipient once. The totals also count repeated and anonymous events."""

    people: int
    machines: int
    total: int
    machine_total: int


@dataclass(frozen=True, slots=True)
class LinkEngagement:
    """Clicks of one link. `people` and `machines` count each recipient once."""

    url: str
    people: int
    machines: int
    total: int
    machine_total: int


@dataclass(frozen=True, slots=True)
class CampaignEngagement:
    opens: EngagementCounts
    clicks: EngagementCounts
    links: tuple[LinkEngagement, ...]  # Most clicked first.


async def load_engagement(tx: Transaction, campaign_key: int, unique: Mapping[str, int]) -> CampaignEngagement:
    """Return the opens and clicks. `unique` is the number of messages with each type of event."""
    tallies = await load_link_tallies(tx, campaign_key)
    events = await count_campaign_events(tx, campaign_key)
    for tally in await load_untallied(tx, campaign_key):
        events[tally.type] = events.get(tally.type, 0) + tally.events
    opened, clicked = EventType.OPENED.value, EventType.CLICKED.value

    def total(type_: str) -> int:
        """Return the total. Link tallies contain all clicks but only anonymous opens, so other opens are added."""
        anonymous = sum(tally.events for tally in tallies if tally.type == type_)
        return anonymous if type_.endswith(clicked) else events.get(type_, 0) + anonymous

    def counts(type_: str) -> EngagementCounts:
        machine = f"{MACHINE}{type_}"
        return EngagementCounts(unique.get(type_, 0), unique.get(machine, 0), total(type_), total(machine))

    return CampaignEngagement(counts(opened), counts(clicked), _links(tallies))


def _links(tallies: Sequence[LinkTally]) -> tuple[LinkEngagement, ...]:
    """Return the clicks of each link. Reports of providers without a URL have no link."""
    clicks = {tally.url: tally for tally in tallies if tally.type == EventType.CLICKED and tally.url}
    machines = {tally.url: tally for tally in tallies if tally.type == f"{MACHINE}{EventType.CLICKED}" and tally.url}
    nothing = LinkTally("", "", 0, 0)
    links = []
    for url in {**clicks, **machines}:
        person, machine = clicks.get(url, nothing), machines.get(url, nothing)
        links.append(
            LinkEngagement(url, person.unique_messages, machine.unique_messages, person.events, machine.events)
        )
    return tuple(sorted(links, key=lambda link: (-link.people, -link.total, link.url)))
