"""Retention: delete old data after a number of days."""

from typing import Annotated, Any

from pydantic import Field

from mailwright.access.roles import Role
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, Noun, Table, time_of
from mailwright.app.retention import make_retention
from mailwright.domain.errors import NotFound
from mailwright.domain.retention import MAX_DAYS, MIN_DAYS, RetentionKind, RetentionRule
from mailwright.domain.sizes import size_text
from mailwright.outbox import tenants
from mailwright.outbox.retention_rules import list_rules, remove_rule, set_rule
from mailwright.schemas.base import ResponseModel, Time, combine
from mailwright.sources.api.fields import RequestModel

noun = Noun(
    "retention",
    "Delete old data after a number of days. Nothing is deleted unless a rule is switched on.",
    "/v1/retention",
    role=Role.ADMIN,
)

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
    tenant: str


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


@noun.get(
    command="show",
    spans_tenants=True,
    help="Show the rules and the amount of data that they have deleted so far. With --tenant, also kinds without one.",
    shown=Table(
        "rules",
        {
            "Tenant!": "tenant",
            "Kind!": "kind",
            "Days#": lambda rule: rule.days or "off",
            "Export!": "exports",
            "Deleted#": lambda rule: f"{rule.deleted:,}",
            "Content#": lambda rule: size_text(rule.deleted_bytes),
            "Last complete pass!": time_of("finished_at"),
        },
        nothing="Retention is off: nothing is deleted. Switch it on with `mailwright retention set KIND DAYS`.",
    ),
)
async def list_retention(at: Context) -> RetentionRuleListResponse:
    """List all kinds of data with their retention rules."""
    found = await list_rules(at.database, at.owner_id)
    if at.owner_id is None:
        names = {each.id: each.name for each in await tenants.list_all(at.database)}
        return RetentionRuleListResponse(rules=[rule_response(each, names[each.tenant_id]) for each in found])
    rules = {rule.kind: rule for rule in found}
    every = [rules.get(kind) or RetentionRule(at.owner_id, kind, 0, exports=False) for kind in RetentionKind]
    return RetentionRuleListResponse(rules=[rule_response(each, at.caller.tenant) for each in every])


@noun.get("/{kind}/preview")
async def preview(at: Context, kind: str, query: RetentionPreviewQuery) -> RetentionPreviewResponse:
    """Count what a rule would delete now. Nothing is changed."""
    wanted = _kind(kind)
    count = await make_retention(at.settings, at.database, at.clock).preview(at.tenant_id, wanted, query.days)
    return combine(RetentionPreviewResponse, count, kind=wanted, days=query.days)


@noun.put("/{kind}", scope=MANAGE, audit="retention.set")
async def save(at: Context, kind: str, wanted: RetentionRuleRequest) -> RetentionRuleResponse:
    """Switch a rule on or change it. Old data is deleted in the background, and cannot be restored."""
    make_retention(at.settings, at.database, at.clock).check_export(exports=wanted.exports)
    rule = await set_rule(at.database, at.clock, at.tenant_id, _kind(kind), **dict(wanted), actor=at.actor)
    return rule_response(rule, at.caller.tenant)


@noun.delete("/{kind}", scope=MANAGE, audit="retention.remove")
async def remove(at: Context, kind: str) -> None:
    """Switch a rule off."""
    await remove_rule(at.database, at.clock, at.tenant_id, _kind(kind), actor=at.actor)


def rule_response(rule: RetentionRule, tenant: str) -> RetentionRuleResponse:
    deleted: dict[str, Any] = {"deleted": rule.rows, "deleted_bytes": rule.bytes}
    return combine(
        RetentionRuleResponse, rule, days=rule.days or None, min_days=MIN_DAYS[rule.kind], tenant=tenant, **deleted
    )


def _kind(text: str) -> RetentionKind:
    try:
        return RetentionKind(text)
    except ValueError:
        known = ", ".join(RetentionKind)
        raise NotFound(f"There is no kind of data {text[:40]}. Use one of {known}.") from None
