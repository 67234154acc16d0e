"""The page on which a draft is set to repeat: weekdays or days of the month, a time, and perhaps a feed."""

from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.actions.campaign_repeats import CampaignRepeatRequest
from mailwright.app.wiring import Engine, make_campaign_repeats
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.errors import InvalidInput, MailwrightError, NotFound, NotPossibleNow
from mailwright.domain.recurrence import WEEKDAYS
from mailwright.domain.translation import gettext
from mailwright.sources.api.validation import RequestInvalid, parse_strict
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.repeat_records import CampaignRepeat
from mailwright.sources.campaigns.review import review_draft
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.dashboard.forms import FORM, Errors, Fields, field_errors, read_fields, read_values
from mailwright.web.dashboard.readiness import readiness_of
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/campaigns", route_class=PageRoute, include_in_schema=False)

_WEEKLY: Final = "weekly"
_MONTHLY: Final = "monthly"


@router.get("/{campaign_id}/repeat")
async def show_repeat(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    if campaign.status is not CampaignStatus.DRAFT:
        return redirect(
            request, f"/campaigns/{campaign_id}", gettext("Only a draft can repeat. Duplicate it."), tone="bad"
        )
    return await _page(request, engine, visitor, campaign)


@router.post("/{campaign_id}/repeat")
async def set_repeat(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Send the draft at each time of the schedule, as the user has reviewed it."""
    form = await read_fields(request)
    form["weekdays"] = ",".join(await read_values(request, "weekdays"))
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    try:
        wanted = parse_strict(CampaignRepeatRequest, _request(form))
        saved = await make_campaign_repeats(engine).set(
            Actor(visitor.actor, visitor.tenant_id),
            campaign_id,
            wanted.schedule,
            feed=wanted.feed,
            reviewed=form["reviewed"],
        )
    except (InvalidInput, RequestInvalid, NotPossibleNow, CampaignNotStartable) as error:
        return await _page(request, engine, visitor, campaign, form=form, error=error)
    words = (
        gettext("Schedule saved. The email is sent at its next time.")
        if saved.feed is None
        else gettext("Schedule saved.")
    )
    if saved.followed is not None and saved.followed.error is not None:
        words = gettext("{words} The feed cannot be reached now; Mailwright tries again every 15 minutes.", words=words)
    return redirect(request, f"/campaigns/{campaign_id}/repeat", words)


@router.post("/{campaign_id}/stop-repeat")
async def stop_repeat(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    to = f"/campaigns/{campaign_id}"
    try:
        await make_campaign_repeats(engine).stop(Actor(visitor.actor, visitor.tenant_id), campaign_id)
    except (NotFound, NotPossibleNow) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, gettext("The campaign no longer repeats."))


async def find_repeat(engine: Engine, campaign: Campaign) -> CampaignRepeat | None:
    """Return the schedule of a draft, or None."""
    try:
        return await make_campaign_repeats(engine).find(campaign.campaign_id, tenant_id=campaign.tenant_id)
    except NotFound:
        return None


def _request(form: Fields) -> dict[str, Any]:
    """Return the schedule of the form in the format of the API, which validates it."""
    wanted: dict[str, Any] = {"time": form["time"]}
    for name in ("feed", "timezone"):
        if form[name]:
            wanted[name] = form[name]
    if form["every"] != _MONTHLY:
        if not form["weekdays"]:
            raise InvalidInput(gettext("Choose at least one weekday."), field="weekdays")
        return {**wanted, "weekdays": form["weekdays"].split(",")}
    days = form["monthDays"].replace(",", " ").split()
    if not days or not all(day.isdecimal() and 1 <= int(day[:3]) <= 31 for day in days):
        raise InvalidInput(gettext("Enter days of the month from 1 to 31, separated by commas."), field="monthDays")
    return {**wanted, "monthDays": [int(day) for day in days]}


def _form_of(repeat: CampaignRepeat | None) -> Fields:
    if repeat is None:
        return Fields({"every": _WEEKLY, "weekdays": "mon", "time": "09:00"})
    schedule = repeat.schedule
    return Fields(
        {
            "every": _MONTHLY if schedule.month_days else _WEEKLY,
            "weekdays": "" if schedule.month_days else ",".join(schedule.weekdays),
            "monthDays": ", ".join(str(day) for day in schedule.month_days),
            "time": schedule.time,
            "feed": repeat.feed or "",
            "timezone": schedule.timezone or "",
        }
    )


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    campaign: Campaign,
    *,
    form: Fields | None = None,
    error: MailwrightError | None = None,
) -> Response:
    # Compute the digests before anything is shown, so that a later change is detected and refused.
    reviewed = await review_draft(engine.database, engine.templates, campaign, engine.campaigns.rules)
    repeat = await find_repeat(engine, campaign)
    feed = form["feed"] if form is not None else repeat.feed if repeat is not None else None
    values: dict[str, Any] = {
        "campaign": campaign,
        "repeat": repeat,
        "readiness": await readiness_of(engine, visitor, campaign),
        "reviewed": reviewed,
        "form": form or _form_of(repeat),
        "errors": _errors(error),
        "examined": await make_campaign_repeats(engine).check(campaign, () if feed else None),
        "weekdays": WEEKDAYS,
        "zone_name": str(visitor.zone),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "campaigns/repeat.html", status=status, **values)


def _errors(error: MailwrightError | None) -> Errors:
    """Return the errors by field. The list of the pre-send check shows its own."""
    if isinstance(error, CampaignNotStartable):
        return Errors(
            {FORM: gettext("The campaign cannot repeat yet: correct the errors of the pre-send check first.")}
        )
    return Errors() if error is None else field_errors(error)
