"""Plan the tracking of a campaign, and check that its A/B test can be measured."""

from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Select, func, select

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.tracking import TrackingMode, parse_mode, strictest
from mailwright.domain.translation import gettext, lazy_gettext, ngettext
from mailwright.sources.campaigns.definition import MANUAL, CampaignDefinition
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.variants import CampaignProblem
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, lists, tenants


class TrackingLevel(StrEnum):
    """The levels that can turn tracking off, the most general first."""

    INSTALLATION = "installation"
    TENANT = "tenant"
    CAMPAIGN = "campaign"
    LISTS = "lists"


_OFF_BECAUSE: Final = {
    TrackingLevel.INSTALLATION: lazy_gettext(
        "Opens and clicks are not tracked, because tracking is off for this installation."
    ),
    TrackingLevel.TENANT: lazy_gettext("Opens and clicks are not tracked, because tracking is off for this tenant."),
    TrackingLevel.CAMPAIGN: lazy_gettext("Opens and clicks are not tracked, because tracking is off in this campaign."),
    TrackingLevel.LISTS: lazy_gettext(
        "Opens and clicks are not tracked, because tracking is off for the chosen lists."
    ),
}


@dataclass(frozen=True, slots=True)
class TrackingPlan:
    """How opens and clicks will be recorded. `consenting` is the number of recipients who consented."""

    mode: TrackingMode
    consenting: int = 0
    off_by: TrackingLevel | None = None  # the level that turned tracking off

    @property
    def records_nothing(self) -> bool:
        return self.mode is TrackingMode.OFF or (self.mode is TrackingMode.INDIVIDUAL and not self.consenting)

    @property
    def sentence(self) -> str:
        match self.mode:
            case TrackingMode.OFF:
                return (
                    gettext("Opens and clicks are not tracked.") if self.off_by is None else _OFF_BECAUSE[self.off_by]
                )
            case TrackingMode.ANONYMOUS:
                return gettext(
                    "Opens and clicks are counted anonymously: links do not identify recipients. "
                    "Links that contain values of a recipient are not tracked."
                )
        if not self.consenting:
            return gettext("No recipient has consented, so nothing is tracked.")
        return ngettext(
            "Opens and clicks of {count} recipient who consented are tracked. Emails to everyone else are not tracked.",
            "Opens and clicks of {count} recipients who consented are tracked. Emails to everyone else are not "
            "tracked.",
            self.consenting,
        )

    @property
    def result_sentence(self) -> str:
        """The sentence of the report, in which `consenting` counts the recipients of sent messages."""
        match self.mode:
            case TrackingMode.OFF:
                return gettext("Opens and clicks of this campaign were not tracked.")
            case TrackingMode.ANONYMOUS:
                return gettext("Opens and clicks of this campaign are counted without names.")
        if not self.consenting:
            return gettext("No recipient had consented, so opens and clicks were not tracked.")
        return ngettext(
            "Opens and clicks are those of the {count} recipient who consented.",
            "Opens and clicks are those of the {count} recipients who consented.",
            self.consenting,
        )


NOT_TRACKED: Final = TrackingPlan(TrackingMode.OFF)


async def plan_tracking(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, members: Select[Any], installation: TrackingMode
) -> TrackingPlan:
    """Return the plan if the campaign started now. If its lists have different modes, the widest mode applies."""
    mode, off_by = await _find_mode(tx, tenant_id, definition, installation)
    if mode is not TrackingMode.INDIVIDUAL:
        return TrackingPlan(mode, off_by=off_by)
    consenting = members.where(contacts.c.consents_to_tracking.is_(True)).add_columns(func.count())
    return TrackingPlan(mode, int((await tx.execute(consenting))[0][0]))


async def load_tracking(tx: Transaction, campaign: Campaign, installation: TrackingMode, tracked: int) -> TrackingPlan:
    """Return how a started campaign was tracked. `tracked` is the number of its emails that identify a recipient."""
    if tracked:
        return TrackingPlan(TrackingMode.INDIVIDUAL, tracked)
    mode, off_by = await _find_mode(tx, campaign.tenant_id, campaign.definition, installation)
    return TrackingPlan(mode, off_by=off_by)


async def find_off_level(tx: Transaction, tenant_id: int, installation: TrackingMode) -> TrackingLevel | None:
    """Return whether the installation or the tenant turned tracking off for all lists and campaigns."""
    if installation is TrackingMode.OFF:
        return TrackingLevel.INSTALLATION
    [tenant] = await tx.execute(select(tenants.c.tracking).where(tenants.c.id == tenant_id))
    return TrackingLevel.TENANT if parse_mode(tenant.tracking) is TrackingMode.OFF else None


async def _find_mode(
    tx: Transaction, tenant_id: int, definition: CampaignDefinition, installation: TrackingMode
) -> tuple[TrackingMode, TrackingLevel | None]:
    """Return the mode, and the level that turned tracking off."""
    off_by = await find_off_level(tx, tenant_id, installation)
    if off_by is not None:
        return TrackingMode.OFF, off_by
    if definition.tracking is TrackingMode.OFF:
        return TrackingMode.OFF, TrackingLevel.CAMPAIGN
    [tenant] = await tx.execute(select(tenants.c.tracking).where(tenants.c.id == tenant_id))
    mode = strictest(installation, parse_mode(tenant.tracking), definition.tracking)
    named = (lists.c.tenant_id == tenant_id, lists.c.list_key.in_(definition.lists))
    own = [parse_mode(row.tracking) for row in await tx.execute(select(lists.c.tracking).where(*named))]
    if own:
        widest = [strictest(mode, each) for each in own]
        mode = next((each for each in (TrackingMode.INDIVIDUAL, TrackingMode.ANONYMOUS) if each in widest), widest[0])
    return mode, TrackingLevel.LISTS if mode is TrackingMode.OFF else None


def check_metric(
    definition: CampaignDefinition, plan: TrackingPlan, planned: int, *, may_report: bool
) -> list[CampaignProblem]:
    """Refuse an A/B test whose winner could not be measured. `may_report`: the provider can report opens and clicks."""
    ab_test = definition.ab_test
    is_measured = may_report or plan.consenting > 0
    if ab_test is None or ab_test.test_percent == 100 or is_measured or planned == 0 or ab_test.winner_by == MANUAL:
        return []
    reason = (
        lazy_gettext("no recipient consented to tracking")
        if plan.mode is TrackingMode.INDIVIDUAL
        else lazy_gettext("the tracking of this campaign is {mode}", mode=plan.mode)
    )
    message = lazy_gettext(
        "{metric} cannot be measured, because {reason}; choose individual tracking and ask for consent, choose the "
        "winner yourself, or let the variants share the whole audience (a test group of 100 %)",
        metric=ab_test.winner_by,
        reason=reason,
    )
    return [CampaignProblem("experiment.winnerBy", "METRIC_NOT_MEASURED", message)]
