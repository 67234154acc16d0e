"""The settings page of retention: what would be deleted, and the rules that are switched on."""

from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.retention import make_retention
from mailwright.app.wiring import Engine
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.retention import RetentionCount, RetentionKind, RetentionRule
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox.retention_rules import list_rules, remove_rule, set_rule
from mailwright.texts.times import count_text
from mailwright.web.dashboard.forms import Errors, Fields, field_errors, read_fields
from mailwright.web.dashboard.settings import TABS
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import AdminDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/settings/retention", route_class=PageRoute, include_in_schema=False)

NAMES: Final = {
    RetentionKind.BODIES: lazy_gettext("Bodies of messages"),
    RetentionKind.EVENTS: lazy_gettext("Timelines of messages"),
    RetentionKind.MESSAGES: lazy_gettext("Whole messages"),
    RetentionKind.REPORTS: lazy_gettext("Provider reports"),
    RetentionKind.AUDIT_LOG: lazy_gettext("Audit log"),
    RetentionKind.IMPORTS: lazy_gettext("Imports"),
    RetentionKind.CONTACT_EVENTS: lazy_gettext("Contact events"),
    RetentionKind.SHADOW: lazy_gettext("Email passed on in shadow mode"),
    RetentionKind.FORM_SUBMISSIONS: lazy_gettext("Form submissions without a subscription"),
    RetentionKind.DMARC: lazy_gettext("DMARC reports"),
    RetentionKind.SEQUENCES: lazy_gettext("Ended runs through sequences"),
}
EXPORT_FORMATS: Final = {"jsonl": lazy_gettext("compressed JSON lines"), "parquet": "Parquet"}


@dataclass(frozen=True, slots=True)
class RetentionPreview:
    """The amount of data that the rule in the form would delete."""

    kind: RetentionKind
    days: int
    exports: bool
    found: RetentionCount


@router.get("")
async def show(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    return await _page(request, engine, visitor, Fields())


@router.post("/preview")
async def preview(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    """Show what the rule would delete, before it is switched on."""
    form = await read_fields(request)
    try:
        kind, days, exports = _read(form)
        retention = make_retention(engine.settings, engine.database, engine.clock)
        retention.check_export(exports=exports)
        found = await retention.preview(visitor.tenant_id, kind, days)
    except InvalidInput as error:
        return await _page(request, engine, visitor, form, error=error)
    return await _page(request, engine, visitor, form, RetentionPreview(kind, days, exports, found))


@router.post("")
async def save(request: Request, engine: EngineDep, visitor: AdminDep) -> Response:
    form = await read_fields(request)
    try:
        kind, days, exports = _read(form)
        make_retention(engine.settings, engine.database, engine.clock).check_export(exports=exports)
        tenant_id, actor = visitor.tenant_id, visitor.actor
        await set_rule(engine.database, engine.clock, tenant_id, kind, days=days, exports=exports, actor=actor)
    except InvalidInput as error:
        return await _page(request, engine, visitor, form, error=error)
    text = gettext(
        "Retention of {lower} is on: {days}. Old data is deleted in the background.",
        lower=NAMES[kind].lower(),
        days=count_text(days, "day"),
    )
    return redirect(request, "/settings/retention", text)


@router.post("/{kind}/remove")
async def remove(request: Request, engine: EngineDep, visitor: AdminDep, kind: str) -> Response:
    if kind not in list(RetentionKind):
        raise NotFound
    wanted = RetentionKind(kind)
    await remove_rule(engine.database, engine.clock, visitor.tenant_id, wanted, actor=visitor.actor)
    return redirect(
        request, "/settings/retention", gettext("Retention of {lower} is off.", lower=NAMES[wanted].lower())
    )


def _read(form: Fields) -> tuple[RetentionKind, int, bool]:
    if form["kind"] not in list(RetentionKind):
        raise InvalidInput(gettext("Choose what to delete."), field="kind")
    days = form.number("days")
    if days is None:
        raise InvalidInput(gettext("Enter the number of days."), field="days")
    return RetentionKind(form["kind"]), days, form["exports"] == "yes"


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields,
    found: RetentionPreview | None = None,
    *,
    error: InvalidInput | None = None,
) -> Response:
    rules: list[RetentionRule] = await list_rules(engine.database, visitor.tenant_id)
    return await page(
        request,
        visitor,
        "settings/retention.html",
        status=HTTPStatus.OK if error is None else HTTPStatus.UNPROCESSABLE_ENTITY,
        tabs=TABS,
        errors=Errors() if error is None else field_errors(error),
        rules=rules,
        names=NAMES,
        kinds=[(kind.value, name) for kind, name in NAMES.items()],
        form=form,
        preview=found,
        export_format=EXPORT_FORMATS[engine.settings.retention_export_format],
        can_export=engine.settings.retention_export is not None,
    )
