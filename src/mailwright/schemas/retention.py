"""Models of retention rules."""

from typing import Annotated

from pydantic import Field

from mailwright.domain.retention import MAX_DAYS, MIN_DAYS, RetentionCount, RetentionKind, RetentionRule
from mailwright.schemas.base import ResponseModel, Time, extend
from mailwright.sources.api.fields import RequestModel

Days = Annotated[int, Field(ge=1, le=MAX_DAYS, description="Data that is older than this many days is deleted.")]


class RetentionRuleRequest(RequestModel):
    """A retention rule. `exports`: write the rows to a file before they are deleted."""

    days: Days
    exports: bool = False


class RetentionPreviewQuery(RequestModel):
    days: Days


class RetentionRuleResponse(ResponseModel):
    """A rule and what it has deleted so far. `days` is null if nothing is deleted.

    `finishedAt`: the end of the last complete pass over the data; null until the first one has ended.
    """

    kind: RetentionKind
    days: int | None
    min_days: int
    exports: bool
    deleted: int
    deleted_bytes: int
    finished_at: Time | None


class TenantRetentionRuleResponse(RetentionRuleResponse):
    """A rule with the tenant that it belongs to."""

    tenant: str


class AppliedRetentionRuleResponse(TenantRetentionRuleResponse):
    """A rule that was applied now, or would be."""

    affected: int
    affected_bytes: int


class RetentionRuleListResponse(ResponseModel):
    rules: list[RetentionRuleResponse]


class RetentionPreviewResponse(ResponseModel):
    """What a rule would delete now. Bytes count the content, without indexes.

    `isEstimate`: the tenant has many messages, so the numbers come from samples.
    """

    kind: RetentionKind
    days: int
    rows: int
    bytes: int
    is_estimate: bool


def retention_rule_response(kind: RetentionKind, rule: RetentionRule | None) -> RetentionRuleResponse:
    return RetentionRuleResponse(
        kind=kind,
        days=None if rule is None else rule.days,
        min_days=MIN_DAYS[kind],
        exports=rule is not None and rule.exports,
        deleted=0 if rule is None else rule.rows,
        deleted_bytes=0 if rule is None else rule.bytes,
        finished_at=None if rule is None else rule.finished_at,
    )


def retention_preview_response(kind: RetentionKind, days: int, found: RetentionCount) -> RetentionPreviewResponse:
    return RetentionPreviewResponse(
        kind=kind, days=days, rows=found.rows, bytes=found.bytes, is_estimate=found.is_estimate
    )


def tenant_rule_response(rule: RetentionRule, tenant: str) -> TenantRetentionRuleResponse:
    return extend(TenantRetentionRuleResponse, retention_rule_response(rule.kind, rule), tenant=tenant)


def applied_rule_response(rule: RetentionRule, tenant: str, count: RetentionCount) -> AppliedRetentionRuleResponse:
    shown = tenant_rule_response(rule, tenant)
    return extend(AppliedRetentionRuleResponse, shown, affected=count.rows, affected_bytes=count.bytes)
