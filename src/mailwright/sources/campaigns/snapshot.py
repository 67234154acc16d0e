"""Freeze the content and the audience of a campaign when it starts."""

from collections.abc import Sequence
from typing import Any

from mailwright.content.presend_checks import PresendContext, PresendIssue
from mailwright.content.template_store import TemplateStore
from mailwright.content.unsubscribe_footer import has_unsubscribe_link, with_unsubscribe_link
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.locales import DEFAULT_LOCALE
from mailwright.sources.campaigns.attachments import CampaignAttachment
from mailwright.sources.campaigns.checks import NO_FACTS, CampaignCheck, check_campaign
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.entries import CampaignSnapshot, CampaignVariant, RunningAbTest, RunningWaves
from mailwright.sources.campaigns.review import digest_draft, digest_loaded, require_reviewed
from mailwright.sources.campaigns.variants import CampaignNotStartable, VariantDraft
from mailwright.sources.sender_rules import NO_SENDER_RULES, SenderRules, SenderRulesDecision
from mailwright.storage.database import Database


@dataclass(frozen=True, slots=True)
class FrozenCampaign:
    content: CampaignSnapshot
    planned: int
    digests: str  # of everything that is sent
    warnings: tuple[PresendIssue, ...] = ()
    unmet_rules: tuple[str, ...] = ()  # rules that the start overrides


async def freeze(
    database: Database,
    store: TemplateStore,
    definition: CampaignDefinition,
    *,
    tenant_id: int,
    campaign_id: str,
    now: Instant,
    facts: PresendContext = NO_FACTS,
    rules: SenderRules = NO_SENDER_RULES,
    overrides_rules: bool = False,
    attachments: Sequence[CampaignAttachment] = (),
    reviewed: tuple[str, CampaignDefinition] | None = None,
    content_digest: str | None = None,
) -> FrozenCampaign:
    """Store the content of the campaign, or raise an error with all problems and store nothing.

    If `reviewed` has the digests of a review and the stored definition, it is an error if the content differs from the
    reviewed content. The start itself may change the send time. `content_digest` has the same effect for a campaign
    without a review by a user.
    """
    check = await check_campaign(
        database,
        store,
        definition,
        tenant_id=tenant_id,
        now=now,
        facts=facts,
        rules=rules,
        overrides_rules=overrides_rules,
        attachments=attachments,
    )
    digests = await digest_draft(tenant_id, definition, check.content, attachments, rules)
    if reviewed is not None:
        seen, stored = reviewed
        require_reviewed(seen, await digest_draft(tenant_id, stored, check.content, attachments, rules))
    if content_digest is not None:
        require_reviewed(content_digest, digest_loaded(definition, check.content, attachments))
    if check.problems:
        raise CampaignNotStartable(list(check.problems))
    variants = [await _store_variant(store, tenant_id, campaign_id, draft) for draft in check.drafts]
    content = CampaignSnapshot(
        tuple(variants),
        _payload(campaign_id, definition, attachments),
        definition.lists,
        check.filter,
        _running_ab_test(definition),
        sender_rules=_decision(check, overrides_rules=overrides_rules),
        has_postal_address=check.has_postal_address,
        waves=_running_waves(definition),
        segments=check.segments,
    )
    return FrozenCampaign(content, check.planned, digests, check.warnings, check.unmet_rules or ())


def _decision(check: CampaignCheck, *, overrides_rules: bool) -> SenderRulesDecision | None:
    if overrides_rules:
        return SenderRulesDecision.OVERRIDDEN
    return None if check.unmet_rules is None else SenderRulesDecision.MET


async def _store_variant(
    store: TemplateStore, tenant_id: int, campaign_id: str, draft: VariantDraft
) -> CampaignVariant:
    """Store the campaign's own content. A version of a template never changes, so its key is enough."""
    name = f"campaign:{campaign_id}:{draft.name}" if draft.name else f"campaign:{campaign_id}"
    keys: dict[str, int] = {}
    for locale, text in sorted(draft.texts.items()):  # the default locale first
        has_link = has_unsubscribe_link(text.html)
        if text.key is not None and has_link:
            keys[locale] = text.key
            continue
        html = text.html if has_link else with_unsubscribe_link(text.html, locale)
        stored = await store.put(tenant_id, name[:100], subject=text.subject, html=html, text=text.text, locale=locale)
        keys[locale] = stored.key
    # The narrowest locale first, so that `pt-BR` matches before `pt`.
    narrowest_first = dict(sorted(keys.items(), key=lambda item: -len(item[0])))
    return CampaignVariant(draft.name, draft.texts[DEFAULT_LOCALE].subject, narrowest_first, draft.share)


def _payload(
    campaign_id: str, definition: CampaignDefinition, attachments: Sequence[CampaignAttachment]
) -> dict[str, Any]:
    """Return the payload that all messages share. Values of the recipient are read when a message is claimed."""
    payload: dict[str, Any] = {"campaign": campaign_id, "variables": definition.variables}
    if definition.sender is not None:
        payload["from"] = definition.sender
    if definition.reply_to is not None:
        payload["replyTo"] = definition.reply_to
    if definition.tracking is not None:
        payload["tracking"] = definition.tracking
    if definition.utm is not None:
        payload["utm"] = definition.utm.model_dump(exclude_none=True)
    if attachments:
        payload["attachmentIds"] = [each.attachment_id for each in attachments]
    return payload


def _running_waves(definition: CampaignDefinition) -> RunningWaves | None:
    waves = definition.waves
    return None if waves is None else RunningWaves(waves.percents, waves.wait_minutes * MINUTE)


def _running_ab_test(definition: CampaignDefinition) -> RunningAbTest | None:
    """Return None if the variants share the whole audience, so that nobody is left for a winner."""
    ab_test = definition.ab_test
    if ab_test is None or ab_test.test_percent == 100:
        return None
    return RunningAbTest(
        ab_test.winner_by,
        ab_test.wait_minutes * MINUTE,
        min_confidence=ab_test.min_confidence,
        if_undecided=ab_test.if_undecided,
    )
