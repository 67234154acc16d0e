"""Identify the content that a user has reviewed, so that a campaign that somebody has changed since is not sent."""

from collections.abc import Mapping, Sequence
from typing import Any

from mailwright.content.template_store import TemplateStore
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.translation import lazy_join
from mailwright.sources.campaigns.attachments import CampaignAttachment
from mailwright.sources.campaigns.checks import CampaignCheck, ReviewedContent, load_content
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.digests import changed_parts, digest
from mailwright.sources.campaigns.records import Campaign
from mailwright.sources.sender_rules import SenderRules
from mailwright.storage.database import Database


class ChangedSinceReview(NotPossibleNow):
    """The campaign was changed since it was reviewed."""

    code = "CHANGED_SINCE_REVIEW"

    def __init__(self, parts: Sequence[str]) -> None:
        super().__init__(
            "The campaign was changed since you reviewed it: {changed}. Check it, and confirm again.",
            changed=lazy_join(", ", parts),
        )


async def review_draft(database: Database, store: TemplateStore, campaign: Campaign, rules: SenderRules) -> str:
    """Return the digests of a draft with everything that it refers to: templates, the brand kit and segments."""
    loaded = await load_content(database, store, campaign.definition, tenant_id=campaign.tenant_id)
    return await digest_draft(campaign.tenant_id, campaign.definition, loaded, campaign.attachments, rules)


async def digest_checked(campaign: Campaign, check: CampaignCheck, rules: SenderRules) -> str:
    """Return the digests of a draft as the pre-send check has read it."""
    return await digest_draft(campaign.tenant_id, campaign.definition, check.content, campaign.attachments, rules)


async def digest_draft(
    tenant_id: int,
    definition: CampaignDefinition,
    loaded: ReviewedContent,
    attachments: Sequence[CampaignAttachment],
    rules: SenderRules,
) -> str:
    return digest(
        definition,
        {
            "content": [*_written(loaded, attachments), rules.postal_address],
            "audience": loaded.filter,
            "sender": await rules.sender_of(tenant_id, definition.sender) or rules.sender,
        },
    )


async def digest_content(database: Database, store: TemplateStore, campaign: Campaign) -> str:
    """Return the digests of a draft with its templates and segments.

    They do not depend on the settings of the installation.
    """
    loaded = await load_content(database, store, campaign.definition, tenant_id=campaign.tenant_id)
    return digest_loaded(campaign.definition, loaded, campaign.attachments)


def digest_loaded(
    definition: CampaignDefinition, loaded: ReviewedContent, attachments: Sequence[CampaignAttachment]
) -> str:
    """Return the same digests for content that was read already."""
    return digest(definition, {"content": _written(loaded, attachments), "audience": loaded.filter})


def _written(loaded: ReviewedContent, attachments: Sequence[CampaignAttachment]) -> list[Any]:
    texts = [
        (draft.name, draft.share, locale, text.subject, text.html, text.text)
        for draft in loaded.drafts
        for locale, text in sorted(draft.texts.items())
    ]
    return [texts, loaded.segments, [each.attachment_id for each in attachments]]


def review_started(campaign: Campaign) -> str:
    """Return the digests of a started campaign with fixed content. Each start has its own digests."""
    return digest(campaign.definition, {"content": campaign.started_at})


def review_extension(campaign: Campaign, filter_: Mapping[str, Any] | None) -> str:
    """Return the digests of a started campaign whose audience is extended to the contacts of the filter."""
    return digest(campaign.definition, {"content": campaign.started_at, "audience": filter_})


def require_reviewed(reviewed: str, present: str) -> None:
    """Raise an error that names the changed parts, unless the digests are the same."""
    if changed := changed_parts(reviewed, present):
        raise ChangedSinceReview(changed)
