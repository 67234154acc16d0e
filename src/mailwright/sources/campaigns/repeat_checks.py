"""Check whether a draft may be sent on its schedule: it is unchanged since its review, and has no errors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mailwright.content.presend_checks import IssueLevel, PresendContext, PresendIssue
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Instant
from mailwright.sources.campaigns.checks import CampaignCheck, check_campaign
from mailwright.sources.campaigns.digests import changed_parts
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.campaigns.variants import CampaignProblem
from mailwright.sources.sender_rules import SenderRules
from mailwright.storage.database import Database

# The sample items for a feed that has no items yet.
SAMPLE_ITEMS: Final[Sequence[Mapping[str, str]]] = (
    {
        "title": "A title",
        "link": "https://www.example.org/item",
        "summary": "A summary.",
        "image": "https://www.example.org/image.png",
    },
)
# The audience may grow until the first time.
_NO_RECIPIENTS: Final = "NO_RECIPIENTS"
_RESENDS: Final = (
    "a campaign that is sent again to those who did not open another one cannot repeat; duplicate it first"
)


async def check_repeat(
    database: Database,
    store: TemplateStore,
    rules: SenderRules,
    draft: Campaign,
    *,
    items: Sequence[Mapping[str, Any]] | None,
    now: Instant,
) -> CampaignCheck:
    """Run the pre-send check for a campaign that would be created from the draft now, with the items of its feed."""
    variables = draft.definition.variables if items is None else {**draft.definition.variables, "items": list(items)}
    check = await check_campaign(
        database,
        store,
        draft.definition.model_copy(update={"scheduled_at": None, "variables": variables}),
        tenant_id=draft.tenant_id,
        now=now,
        facts=PresendContext(postal_address=rules.postal_address),
        rules=rules,
        attachments=draft.attachments,
    )
    if draft.definition.resend_of is None:
        return check
    return replace(check, problems=(*check.problems, CampaignProblem("resendOf", "NOT_REPEATABLE", _RESENDS)))


def allow_empty_audience(check: CampaignCheck) -> CampaignCheck:
    """Turn the error that nobody would receive the email now into a warning."""
    empty = [
        PresendIssue(IssueLevel.WARNING, each.code, each.message, "audience")
        for each in check.problems
        if each.code == _NO_RECIPIENTS
    ]
    kept = tuple(each for each in check.problems if each.code != _NO_RECIPIENTS)
    return replace(check, problems=kept, warnings=(*check.warnings, *empty))


def find_refusal(digest: str, present: str | None) -> str | None:
    """Return why a draft is not sent at its time because it was changed, or None."""
    if present is None:
        return "Nothing is sent: the draft uses something that is missing. Review it, and set the schedule again."
    if changed := changed_parts(digest, present):
        parts = ", ".join(changed)
        return (
            f"Nothing is sent: the draft was changed since its schedule was set ({parts}). "
            "Review it, and set the schedule again."
        )
    return None
