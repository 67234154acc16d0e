"""The definition of a campaign: the fields that a user can set."""

from itertools import pairwise
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.alias_generators import to_camel

from mailwright.content.formats import TemplateFormat
from mailwright.content.headers import find_unwritable
from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.guard_rails import GuardRailSettings
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.translation import gettext, lazy_gettext, ngettext
from mailwright.domain.working_hours import parse_working_hours
from mailwright.policies.hours import is_zone


def _line(text: str) -> str:
    if what := find_unwritable(text):
        raise ValueError(lazy_gettext("contains {what}", what=what))
    return text


def _mailbox(text: str) -> str:
    """Accept `name@example.com` and `Name <name@example.com>`."""
    try:
        address.parse(address.split_mailbox(text)[1])
    except address.InvalidAddress as error:
        raise ValueError(error.args[0]) from error
    return _line(text)


def _hours(text: str) -> str:
    try:
        parse_working_hours(text)
    except ValueError as error:
        raise ValueError(lazy_gettext("working hours are invalid: {error}", error=error)) from error
    return text


def _zone(name: str) -> str:
    if not is_zone(name):
        raise ValueError(lazy_gettext("is not an IANA time zone, for example Europe/Lisbon or UTC"))
    return name


SingleLine = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_line)]
Subject = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_line)]
Sender = Annotated[str, Field(max_length=400), AfterValidator(_mailbox)]
ListKey = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")]
Hours = Annotated[str, Field(max_length=400), AfterValidator(_hours)]
Zone = Annotated[str, Field(max_length=100), AfterValidator(_zone)]
# The `winner_by` of an A/B test whose winner a user chooses.
MANUAL: Final = "manual"
Positive = Annotated[int, Field(gt=0, le=2**31 - 1)]


class DefinitionPart(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


class ContentDefinition(DefinitionPart):
    """A body written here, or the ID of a template. A draft may have neither yet; it cannot start then."""

    subject: Subject | None = None
    format: TemplateFormat = TemplateFormat.HTML
    body: Annotated[str, Field(max_length=512 * 1024)] | None = None
    text: Annotated[str, Field(max_length=512 * 1024)] | None = None
    template_id: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    preheader: SingleLine | None = None  # shown next to the subject in the inbox

    @model_validator(mode="after")
    def _one_of_both(self) -> "ContentDefinition":
        if self.body is not None and self.template_id is not None:
            raise ValueError(lazy_gettext("give either a body or a templateId"))
        return self

    @property
    def is_written(self) -> bool:
        return self.body is not None or self.template_id is not None


class CampaignLimits(DefinitionPart):
    """Limits of this campaign only. The limits of the tenant and the installation apply as well."""

    rate_per_second: Positive | None = None
    rate_per_hour: Positive | None = None
    daily_limit: Positive | None = None
    working_hours: Hours | None = None
    timezone: Zone | None = None
    warmup: bool = False
    in_readers_time_zone: bool = False  # working hours in each recipient's time zone
    interval_ms: Positive | None = None  # minimum time between the starts of two sends
    one_at_a_time: bool = False  # each send starts after the previous one has finished
    guard_rails: GuardRailSettings | None = None  # None: those of the tenant
    ignore_frequency_cap: SingleLine | None = None  # the reason why the cap does not apply; None: it applies


class AbTestVariant(DefinitionPart):
    """The fields of a campaign that one variant of an A/B test overrides."""

    name: SingleLine
    subject: Subject | None = None
    body: Annotated[str, Field(max_length=512 * 1024)] | None = None


class AbTest(DefinitionPart):
    """A share of the audience receives the variants; after a wait, everyone else receives the better one.

    A variant wins if it is the best one with a probability of at least `min_confidence` percent. Otherwise the test is
    undecided: everyone else receives the variant `if_undecided`, or waits until a user chooses. If `winner_by` is
    `manual`, a user chooses in any case.
    """

    variants: Annotated[tuple[AbTestVariant, ...], Field(min_length=2, max_length=5)]
    test_percent: Annotated[int, Field(ge=2, le=100)] = 20
    wait_minutes: Annotated[int, Field(ge=1, le=14 * 24 * 60)] = 240
    winner_by: Literal["opens", "clicks", "manual"] = "clicks"
    min_confidence: Annotated[int, Field(ge=50, le=99)] = 95
    if_undecided: SingleLine | None = None

    @model_validator(mode="after")
    def _fallback_is_a_variant(self) -> "AbTest":
        names = [variant.name for variant in self.variants]
        if self.if_undecided is not None and self.if_undecided not in names:
            raise ValueError(lazy_gettext("ifUndecided must be the name of a variant: {names}", names=", ".join(names)))
        if self.if_undecided is not None and self.winner_by == MANUAL:
            raise ValueError(
                lazy_gettext("ifUndecided cannot be combined with winnerBy manual, because a user chooses the winner")
            )
        return self

    @model_validator(mode="after")
    def _names_differ(self) -> "AbTest":
        if len({variant.name for variant in self.variants}) < len(self.variants):
            raise ValueError(lazy_gettext("two variants have the same name, and the winner is chosen by name"))
        return self


class Waves(DefinitionPart):
    """The audience receives the campaign in growing parts: 1 %, then 10 %, then everyone.

    Between two waves the campaign waits for bounces and complaints. The next wave opens if the guard rails find none.
    """

    percents: Annotated[tuple[Annotated[int, Field(ge=1, le=99)], ...], Field(min_length=1, max_length=9)] = (
        1,
        10,
    )  # of the audience, including earlier waves; everyone else follows
    wait_minutes: Annotated[int, Field(ge=1, le=14 * 24 * 60)] = 240

    @model_validator(mode="after")
    def _waves_grow(self) -> "Waves":
        if any(later <= earlier for earlier, later in pairwise(self.percents)):
            raise ValueError(lazy_gettext("each wave must be larger than the one before, for example 1, 10"))
        return self

    @property
    def sentence(self) -> str:
        """Return `in waves of 1 %, 10 %, then everyone, 240 minutes apart`."""
        parts = ", ".join(f"{percent} %" for percent in self.percents)
        minutes = ngettext("{count} minute", "{count} minutes", self.wait_minutes)
        return gettext("in waves of {percents}, then everyone, {minutes} apart", percents=parts, minutes=minutes)


class UtmParameters(DefinitionPart):
    """Added to all links as `utm_source`, `utm_medium` and so on, unless a link already has them."""

    source: SingleLine | None = None
    medium: SingleLine | None = None
    campaign: SingleLine | None = None
    term: SingleLine | None = None
    content: SingleLine | None = None


class CampaignDefinition(DefinitionPart):
    """Everything about a campaign except its state."""

    name: SingleLine
    content: ContentDefinition = ContentDefinition()
    lists: tuple[ListKey, ...] = ()
    segment: ListKey | None = None
    # Contacts who are subscribed to one of these lists, or match one of these segments, do not receive the campaign.
    exclude_lists: tuple[ListKey, ...] = ()
    exclude_segments: tuple[ListKey, ...] = ()
    filter: dict[str, Any] | None = None
    sender: Annotated[Sender | None, Field(alias="from")] = None
    reply_to: Sender | None = None
    variables: dict[str, Any] = {}
    limits: CampaignLimits = CampaignLimits()
    ab_test: Annotated[AbTest | None, Field(alias="experiment")] = None
    scheduled_at: Instant | None = None
    tracking: TrackingMode | None = None  # None: use the mode of the lists, the tenant and the installation
    utm: UtmParameters | None = None
    waves: Waves | None = None
    # The ID of an earlier campaign; this one goes to those who did not open it.
    resend_of: Annotated[str | None, Field(pattern=r"^[0-9a-f-]{36}$")] = None

    @property
    def is_narrowed(self) -> bool:
        """Whether a segment or a filter chooses the recipients. Exclusions only leave some out."""
        return any(each is not None for each in (self.segment, self.filter, self.resend_of))

    @field_validator("waves")
    @classmethod
    def _waves_or_ab_test(cls, waves: Waves | None, info: ValidationInfo) -> Waves | None:
        ab_test = info.data.get("ab_test")
        if waves is not None and ab_test is not None and ab_test.test_percent < 100:
            raise ValueError(
                lazy_gettext(
                    "cannot be combined with an A/B test that begins with a part of the audience; remove one of the two"
                )
            )
        return waves
