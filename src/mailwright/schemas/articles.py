"""Answers about articles: the same for the HTTP API and for `--json` at the command line."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from mailwright.domain.clock import isoformat
from mailwright.schemas.answers import Time
from mailwright.sources.articles.assembly import Inclusion, PublishStatus, Slice
from mailwright.sources.articles.preview import ArticleCoverage, ArticlePreview, SliceInclusion
from mailwright.sources.articles.runs import ArticleRun, RunVariant
from mailwright.sources.articles.slice_input import FIELDS
from mailwright.sources.articles.slices import ArticleSummary, SliceChanges


class Named(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class SliceResponse(Named):
    slice_id: str
    article_key: str
    section_order: int
    sort_index: int
    is_headline: bool
    title: str | None
    dek: str | None
    body_md: str
    link_url: str | None
    scope_ocd_id: str | None
    tags: list[str]
    publish_status: PublishStatus
    publish_at: Time | None
    expires_at: Time | None


class SliceListResponse(Named):
    """In the order in which a reader of all of them would get them."""

    slices: list[SliceResponse]


class SliceImportResponse(Named):
    added: int
    changed: int
    unchanged: int


class ArticleSummaryResponse(Named):
    article_key: str
    slices: int
    published: int
    updated_at: Time


class ArticleListResponse(Named):
    articles: list[ArticleSummaryResponse]


class ArticleRunResponse(Named):
    """`recipients` have a message; `skipped` are in the audience, and none of the slices is for them."""

    run_id: str
    campaign_tag: str
    article_key: str
    send_batch_id: str
    audience_filter: dict[str, str]
    list_key: str
    actor: str
    started_at: Time
    is_walked: bool
    recipients: int
    skipped: int
    failure: str | None


class ArticleSendResponse(ArticleRunResponse):
    """`is_replay`: this batch was asked for before, and nothing has changed."""

    is_replay: bool


class RunVariantResponse(Named):
    """Readers of one variant all got these slices."""

    slice_ids: list[str]
    recipients: int


class ArticleRunDetailResponse(ArticleRunResponse):
    """`counts`: how many of its messages stand where, by status."""

    counts: dict[str, int]
    variants: list[RunVariantResponse]


class ArticleRunListResponse(Named):
    runs: list[ArticleRunResponse]
    next_cursor: str | None


class SliceDecisionResponse(Named):
    """Why a slice is, or is not, in the article."""

    slice_id: str
    scope_ocd_id: str | None
    section_order: int
    sort_index: int
    title: str | None
    is_included: bool
    fate: Inclusion
    reason: str


class ArticlePreviewResponse(Named):
    """Everything but `slices` is null where the reader gets nothing."""

    title: str | None
    dek: str | None
    body_md: str | None
    subject: str | None
    html: str | None
    text: str | None
    ocd_ids: list[str]
    slices: list[SliceDecisionResponse]


class VariantCoverageResponse(Named):
    title: str
    recipients: int
    slices: list[SliceResponse]


class ArticleCoverageResponse(Named):
    """`unread`: slices that are published, and that nobody in the audience gets."""

    article_key: str
    list_key: str
    recipients: int
    skipped: int
    variants: list[VariantCoverageResponse]
    unread: list[SliceResponse]


def slice_(each: Slice) -> dict[str, Any]:
    return {
        "slice_id": each.slice_id,
        **{name: getattr(each, name) for name in FIELDS},
        "tags": list(each.tags),
        "publish_status": each.publish_status.value,
        "publish_at": isoformat(each.publish_at),
        "expires_at": isoformat(each.expires_at),
    }


def taken(put: SliceChanges) -> dict[str, int]:
    return {"added": put.added, "changed": put.changed, "unchanged": put.unchanged}


def article(summary: ArticleSummary) -> dict[str, Any]:
    return {
        "article_key": summary.article_key,
        "slices": summary.slices,
        "published": summary.published,
        "updated_at": isoformat(summary.updated_at),
    }


def run(found: ArticleRun) -> dict[str, Any]:
    return {
        "run_id": found.run_id,
        "campaign_tag": found.campaign_tag,
        "article_key": found.article_key,
        "send_batch_id": found.send_batch_id,
        "audience_filter": found.audience_filter,
        "list_key": found.list_key,
        "actor": found.actor,
        "started_at": isoformat(found.started_at),
        "is_walked": found.enqueue_ended_at is not None,
        "recipients": found.recipients,
        "skipped": found.skipped,
        "failure": found.failure,
    }


def run_story(found: ArticleRun, counts: dict[str, int], shares: list[RunVariant]) -> dict[str, Any]:
    variants = [{"slice_ids": list(each.slice_ids), "recipients": each.recipients} for each in shares]
    return {**run(found), "counts": counts, "variants": variants}


def preview(seen: ArticlePreview) -> dict[str, Any]:
    article_, rendered = seen.article, seen.rendered
    return {
        "title": article_ and article_.title,
        "dek": article_ and article_.dek,
        "body_md": article_ and article_.body_md,
        "subject": rendered and rendered.subject,
        "html": rendered and rendered.html,
        "text": rendered and rendered.text,
        "ocd_ids": list(seen.recipient.divisions),
        "slices": [judged(each) for each in seen.slices],
    }


def judged(each: SliceInclusion) -> dict[str, Any]:
    return {
        "slice_id": each.slice.slice_id,
        "scope_ocd_id": each.slice.scope_ocd_id,
        "section_order": each.slice.section_order,
        "sort_index": each.slice.sort_index,
        "title": each.slice.title,
        "is_included": each.inclusion.is_included,
        "fate": each.inclusion.value,
        "reason": each.reason,
    }


def coverage(article_key: str, found: ArticleCoverage) -> dict[str, Any]:
    variants = [
        {"title": each.title, "recipients": each.recipients, "slices": [slice_(one) for one in each.slices]}
        for each in found.variants
    ]
    return {
        "article_key": article_key,
        "list_key": found.list_key,
        "recipients": found.recipients,
        "skipped": found.skipped,
        "variants": variants,
        "unread": [slice_(each) for each in found.unread],
    }
