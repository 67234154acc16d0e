"""The demo campaigns: sent, deferred by an hourly limit, sending slowly, scheduled, in waves, and two drafts."""

from typing import Any, Final

from mailwright.app.wiring import Engine
from mailwright.audience import contacts, lists, segments
from mailwright.audience.status import ContactStatusService
from mailwright.audience.tracking_consent import TrackingConsent
from mailwright.domain.clock import DAY
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.campaigns import progress
from mailwright.sources.campaigns.campaigns import Campaigns
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition
from mailwright.sources.campaigns.records import Actor, Campaign

NEWS: Final = "news"
COLLECTORS: Final = "collectors"
# An hourly limit below the number of subscribers, so that the campaign shows a deferral.
PER_HOUR: Final = 8
# Send rate of the campaign that `moves` adds, slow enough to watch.
INTERVAL_MS: Final = 15_000
ACTOR: Final = "demo"
SENT: Final = "Thanks to collectors"
# Contacts with at least this many orders consented to tracking, so that the report has opens and unmeasured emails.
TRACKED_FROM: Final = 3
CONSENT: Final = "Yes, you may record which emails I open and which links I click."
LINK: Final = "https://shop.example/new"

# Name, city, the kind of thing they collect, and their number of orders.
SUBSCRIBERS: Final = (
    ("Ada Lovelace", "London", "engines", 12),
    ("Grace Hopper", "New York", "moths", 8),
    ("Hedy Lamarr", "Vienna", "radios", 3),
    ("Katherine Johnson", "Hampton", "charts", 21),
    ("Radia Perlman", "Portsmouth", "trees", 5),
    ("Sophie Wilson", "Leeds", "chips", 17),
    ("Mary Jackson", "Hampton", "wings", 2),
    ("Annie Easley", "Birmingham", "rockets", 9),
    ("Frances Allen", "Peru", "loops", 4),
    ("Barbara Liskov", "Los Angeles", "types", 11),
    ("Karen Jones", "Huddersfield", "words", 6),
    ("Lynn Conway", "Mount Vernon", "gates", 14),
    ("Emmy Noether", "Erlangen", "rings", 1),
    ("Sofja Kowalewskaja", "Moskau", "tops", 2),
    ("Wang Zhenyi", "Nanjing", "eclipses", 7),
)

_BODY: Final = """# {{ title }}

Dear {{ name }}, how are the {{ collects }} in {{ city }}?

{{ news }}

[See what is new](LINK)

{{ postal_address }} · [Unsubscribe]({{ unsubscribe_url }})
""".replace("LINK", LINK)


@dataclass(frozen=True, slots=True)
class DemoCampaign:
    """A campaign with its position in the queue and its counts."""

    campaign: Campaign
    place: QueuePosition | None
    counts: CampaignMessageCounts | None

    @property
    def is_settled(self) -> bool:
        """Return whether the campaign has finished or waits for a limit or a send time."""
        return self.place is None or self.place.status == "COMPLETED" or self.place.defer_reason is not None


async def load_subscribers(engine: Engine, tenant_id: int) -> None:
    """Create the contacts of the shop, their list and a segment of them."""
    database, clock = engine.database, engine.clock
    await lists.create(database, clock, tenant_id, NEWS, name="Shop news")
    statuses = ContactStatusService(database, clock)
    for name, city, collects, orders in SUBSCRIBERS:
        email = f"{name.partition(' ')[0].lower()}@example.com"
        attributes = {"city": city, "collects": collects, "orders": orders}
        consent = TrackingConsent(is_given=True, wording=CONSENT, source=ACTOR) if orders >= TRACKED_FROM else None
        change = contacts.ContactChange(name=name, attributes=attributes, tracking_consent=consent)
        await contacts.put(database, clock, tenant_id, email, change)
        await statuses.subscribe(tenant_id, email, NEWS, source=ACTOR)
    filter_ = {"attribute": "orders", "atLeast": 10}
    await segments.create(database, clock, tenant_id, COLLECTORS, filter_=filter_, name="Ten orders or more")


async def load_campaigns(engine: Engine, tenant_id: int, *, moves: bool) -> None:
    """Create the campaigns. `moves` adds one that keeps sending slowly."""
    campaigns, acting = _campaigns(engine), Actor(ACTOR, tenant_id)
    for definition in [*_definitions(engine), *([_moving()] if moves else [])]:
        campaign = await campaigns.create(acting, tenant_id, definition)
        await campaigns.start(acting, campaign.campaign_id)
    for draft in _drafts():
        await campaigns.create(acting, tenant_id, draft)


async def campaigns_of(engine: Engine, tenant_id: int) -> list[DemoCampaign]:
    """Return the campaigns, oldest first."""
    found = await _campaigns(engine).list_page(tenant_id=tenant_id, limit=10)
    shown = []
    async with engine.database.read() as tx:
        for campaign in reversed(found):
            place = await progress.find_position(tx, campaign.key)
            shown.append(
                DemoCampaign(campaign, place, None if place is None else await progress.count_messages(tx, place))
            )
    return shown


def _definitions(engine: Engine) -> list[CampaignDefinition]:
    in_three_days = engine.clock.now() // DAY * DAY + 3 * DAY
    return [
        _definition(SENT, "For you first, {{ name }}", "The catalogue, a day early.", COLLECTORS),
        _definition("Spring catalogue", "{{ name }}, the new catalogue", "Four new engines.", ratePerHour=PER_HOUR),
        _definition("Summer sale", "Summer sale", "Everything in brass.", scheduledAt=in_three_days),
        _definition(
            "Museum evening",
            "An evening at the museum",
            "Come and see the engines run.",
            waves={"percents": [20, 50], "waitMinutes": 240},
            limits={"guardRails": {"complaintStopPercent": 0.3, "hardBounceStopPercent": 5, "minMessages": 3}},
        ),
    ]


def _moving() -> CampaignDefinition:
    limits = {"intervalMs": INTERVAL_MS}
    return _definition("Workshop notes", "Notes for {{ city }}", "What we read in the workshop.", limits=limits)


def _drafts() -> list[CampaignDefinition]:
    ab_test = {"variants": [{"name": "calm"}, {"name": "loud", "subject": "Brass! Brass!"}], "testPercent": 40}
    return [
        _definition("A/B test of two subjects", "All about brass", "Which subject do people open?", experiment=ab_test),
        _definition("News from the workshop", "{{ name }}, we have moved", "We moved to a brighter workshop."),
    ]


def _definition(name: str, subject: str, news: str, segment: str | None = None, **more: Any) -> CampaignDefinition:
    limits = {"ratePerHour": more.pop("ratePerHour")} if "ratePerHour" in more else more.pop("limits", {})
    return CampaignDefinition.model_validate(
        {
            "name": name,
            "content": {"subject": subject, "format": "markdown", "body": _BODY},
            "lists": [NEWS],
            "segment": segment,
            "variables": {"title": name, "news": news},
            "limits": limits,
            **more,
        }
    )


def _campaigns(engine: Engine) -> Campaigns:
    return Campaigns(engine.database, engine.clock, engine.templates)
