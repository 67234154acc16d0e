"""Check that everything a sequence names exists: templates, lists, segments, campaigns and webhooks."""

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import select

from mailwright.audience import lists
from mailwright.audience.filter_references import find_missing
from mailwright.audience.segments import load_filters
from mailwright.domain.translation import lazy_gettext
from mailwright.outbox.webhook_requests import FORMATS_OF_STEPS
from mailwright.sources.api.validation import FieldError
from mailwright.sources.sequences.definition import Definition, InvalidSequence, StepKind, Trigger, TriggerKind
from mailwright.storage.database import Transaction
from mailwright.storage.tables import campaigns, templates, webhook_endpoints

_SEGMENT_TRIGGERS = (TriggerKind.ENTERS_SEGMENT, TriggerKind.LEAVES_SEGMENT)
GROUP_TRIGGERS = (TriggerKind.SCHEDULE, TriggerKind.RSS)
_CAMPAIGN_TRIGGERS = (TriggerKind.OPENS, TriggerKind.CLICKS)


async def require_known(tx: Transaction, tenant_id: int, definition: Definition) -> None:
    """Raise InvalidSequence with everything that does not exist, and where it is named."""
    if problems := await find_unknown(tx, tenant_id, definition):
        raise InvalidSequence(problems)


async def find_unknown(tx: Transaction, tenant_id: int, definition: Definition) -> tuple[FieldError, ...]:
    problems = [
        *await _templates(tx, tenant_id, definition),
        *await _lists(tx, tenant_id, definition),
        *await _trigger(tx, tenant_id, definition),
        *await _webhooks(tx, tenant_id, definition),
    ]
    for path, condition in _filters(definition):
        missing = await find_missing(tx, tenant_id, condition)
        problems += [FieldError(path, code, sentence) for code, sentence in missing.problems]
    return tuple(problems)


async def _templates(tx: Transaction, tenant_id: int, definition: Definition) -> list[FieldError]:
    wanted = {step.where: step.body.template for step in definition.walk() if step.kind is StepKind.SEND}
    t = templates.c
    known = (t.tenant_id == tenant_id, t.template_id.in_(sorted(set(wanted.values()))), t.deleted_at.is_(None))
    found = {row.template_id for row in await tx.execute(select(t.template_id).where(*known).distinct())}
    return [
        FieldError(
            f"{where}.send.template",
            "UNKNOWN_TEMPLATE",
            lazy_gettext("there is no template {template}", template=template),
        )
        for where, template in wanted.items()
        if template not in found
    ]


async def _lists(tx: Transaction, tenant_id: int, definition: Definition) -> list[FieldError]:
    named = dict(_named_lists(definition))
    found = await lists.existing_keys(tx, tenant_id, named.values())
    return [
        FieldError(path, "UNKNOWN_LIST", lazy_gettext("there is no list {key}", key=key))
        for path, key in named.items()
        if key not in found
    ]


def _named_lists(definition: Definition) -> Iterator[tuple[str, str]]:
    if definition.list_key is not None:
        yield "list", definition.list_key
    if definition.trigger.kind is TriggerKind.JOINS_LIST:
        yield "trigger.joinsList", str(definition.trigger.value)
    if definition.trigger.kind in GROUP_TRIGGERS and definition.trigger.body.list is not None:
        yield "trigger.list", definition.trigger.body.list
    for step in definition.walk():
        if step.kind is StepKind.CHANGE:
            for name in ("subscribe", "unsubscribe"):
                for number, key in enumerate(getattr(step.body, name)):
                    yield f"{step.where}.change.{name}[{number}]", key


async def _trigger(tx: Transaction, tenant_id: int, definition: Definition) -> list[FieldError]:
    trigger = definition.trigger
    key, path = str(trigger.value), f"trigger.{trigger.kind.value}"
    if (segment := named_segment(trigger)) is not None and not await load_filters(tx, tenant_id, [segment]):
        field = path if trigger.kind in _SEGMENT_TRIGGERS else "trigger.segment"
        return [FieldError(field, "UNKNOWN_SEGMENT", lazy_gettext("there is no segment {segment}", segment=segment))]
    if trigger.kind in _CAMPAIGN_TRIGGERS:
        mine = (campaigns.c.tenant_id == tenant_id, campaigns.c.campaign_id == key)
        if not await tx.execute(select(campaigns.c.id).where(*mine)):
            return [FieldError(path, "UNKNOWN_CAMPAIGN", lazy_gettext("there is no campaign {key}", key=key))]
    return []


def named_segment(trigger: Trigger) -> str | None:
    """Return the segment whose members enter the sequence."""
    if trigger.kind in _SEGMENT_TRIGGERS:
        return trigger.value
    if trigger.kind in GROUP_TRIGGERS:
        segment: str | None = trigger.body.segment
        return segment
    return None


async def _webhooks(tx: Transaction, tenant_id: int, definition: Definition) -> list[FieldError]:
    wanted = {step.where: step.body.to for step in definition.walk() if step.kind is StepKind.WEBHOOK}
    w = webhook_endpoints.c
    known = (w.tenant_id == tenant_id, w.webhook_id.in_(sorted(wanted.values())), w.format.in_(FORMATS_OF_STEPS))
    found = {row.webhook_id for row in await tx.execute(select(w.webhook_id).where(*known))} if wanted else set()
    return [
        FieldError(
            f"{where}.webhook.to",
            "UNKNOWN_WEBHOOK",
            lazy_gettext(
                "there is no webhook {webhook_id} in a format of Mailwright ({formats})",
                webhook_id=webhook_id,
                formats=", ".join(FORMATS_OF_STEPS),
            ),
        )
        for where, webhook_id in wanted.items()
        if webhook_id not in found
    ]


def _filters(definition: Definition) -> Iterator[tuple[str, Any]]:
    if definition.entry is not None:
        yield "entry", definition.entry
    stops = [("goal", definition.goal), *((f"exits[{number}]", each) for number, each in enumerate(definition.exits))]
    yield from ((path, each) for path, each in stops if isinstance(each, Mapping))
    for step in definition.walk():
        if step.kind is StepKind.BRANCH:
            for number, condition in enumerate(step.body):
                yield f"{step.where}.branch[{number}].if", condition
        elif step.kind is StepKind.WAIT_FOR and step.body.filter is not None:
            yield f"{step.where}.waitFor.filter", step.body.filter
