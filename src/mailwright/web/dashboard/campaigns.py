"""Campaign pages: list, progress, forecast, recipients and actions."""

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from mailwright.access.roles import Role
from mailwright.access.users import email_of
from mailwright.actions.campaign_reports import RecipientShow, parse_recipient_filter
from mailwright.actions.exclusions import EXCLUSION_TEXT
from mailwright.app.destinations import find_sent_to
from mailwright.app.wiring import Engine
from mailwright.audience import lists, segments
from mailwright.content.presend_checks import PresendContext
from mailwright.domain.buckets import WITHOUT_MESSAGE, Bucket
from mailwright.domain.campaign import ALLOWED_STATUSES, CampaignAction, CampaignStatus, QueueStatus
from mailwright.domain.clock import MINUTE, Instant
from mailwright.domain.errors import InvalidInput, MailwrightError, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.record_state import RecordState
from mailwright.domain.schedule import parse_time
from mailwright.domain.sending_readiness import Destination
from mailwright.domain.states import EventType, Resolution
from mailwright.domain.translation import gettext, lazy_gettext
from mailwright.outbox import audit_log
from mailwright.outbox.workers import sending_rate
from mailwright.schemas.paging import decode_cursor, encode_cursor
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.campaigns import progress, report
from mailwright.sources.campaigns.approval_gate import load_gate
from mailwright.sources.campaigns.checks import CampaignCheck, check_campaign, count_audience
from mailwright.sources.campaigns.explain import explain_campaign
from mailwright.sources.campaigns.extension import preview_extension
from mailwright.sources.campaigns.forecast import Forecast, forecast
from mailwright.sources.campaigns.forecast_drafts import DRAFT_ID, ForecastDraft
from mailwright.sources.campaigns.progress import CampaignMessageCounts, QueuePosition
from mailwright.sources.campaigns.queue_recorder import refresh_queue
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.review import review_draft, review_started
from mailwright.sources.campaigns.samples import choose_samples
from mailwright.sources.campaigns.statistics import count_results
from mailwright.sources.campaigns.test_send import CampaignTestSend, render_variants
from mailwright.sources.campaigns.unfinished_content import TEMPLATE_FIELD
from mailwright.sources.campaigns.variants import UNKNOWN_TEMPLATE, CampaignNotStartable
from mailwright.texts.buckets import BUCKET_LABELS, retry_text
from mailwright.texts.explanations import GUARD_ACTIONS, guard_finding_text
from mailwright.texts.sentences import sentence
from mailwright.web.dashboard import previews
from mailwright.web.dashboard.advice import ADVICE, FIX_PAGES, FixPage
from mailwright.web.dashboard.campaigns_compose import steps_of
from mailwright.web.dashboard.campaigns_forms import (
    error_links,
    field_errors_of,
    fields_from,
    limits_of,
    read_step,
    step_of,
    variables_text,
)
from mailwright.web.dashboard.campaigns_repeat import find_repeat
from mailwright.web.dashboard.forms import Errors, Fields, read_fields
from mailwright.web.dashboard.messages import RESOLUTIONS, resolution_of
from mailwright.web.dashboard.readiness import readiness_of, with_readiness
from mailwright.web.dashboard.shell import PageRoute, email_frame, fragment, page, redirect, render_part
from mailwright.web.dashboard.stream import stream
from mailwright.web.session import EditorDep, ViewerDep, Visitor
from mailwright.web.state import EngineDep, result_cache_of

router = APIRouter(prefix="/campaigns", route_class=PageRoute, include_in_schema=False)

PAGE: Final = 25
RECIPIENTS_PAGE: Final = 50
_NEWEST: Final = 2**63 - 1
# The digests of the content that the user reviewed, on the page that loads a part.
ReviewedQuery = Annotated[str, Query(max_length=200)]
SegmentQuery = Annotated[str, Query(max_length=63)]
_ACTIVITY_SHOWN: Final = 20
# The parts of the page of a started campaign that change with it, by the ids of their elements.
_LIVE_PARTS: Final = ("header", "progress", "action-cards", "status-cards")
_RESOLVED: Final = {
    Resolution.SENT: lazy_gettext("Unconfirmed emails marked as sent."),
    Resolution.RESEND: lazy_gettext("Unconfirmed emails queued to be sent again."),
    Resolution.CLOSE: lazy_gettext("Unconfirmed emails closed as unknown."),
}

# The form fields that fix the warnings of the pre-send check, and fields that are focused through another one.
_WARNING_FIELDS: Final = {
    "subject": "content.subject",
    "html": "content.body",
    "text": "content.text",
    "sender": "from",
    "audience": "experiment.testPercent",
    "filter": "segment",
}
_CONTENT_FIELDS: Final = frozenset({"content.body", "content.text"})
_FOCUSED: Final = {"attachments": "attachments", "filter": "segment"}


@dataclass(frozen=True, slots=True)
class CampaignRow:
    """A campaign with its queue position and counts. Without a position it has not started."""

    campaign: Campaign
    place: QueuePosition | None
    counts: CampaignMessageCounts | None
    sent_to: Destination | None = None  # where its sent messages went; only on the pages of one campaign

    @property
    def is_open(self) -> bool:
        return self.campaign.status in (CampaignStatus.READY, CampaignStatus.SENDING, CampaignStatus.PAUSED)

    @property
    def is_processed(self) -> bool:
        """Whether all messages are processed; only failures may be left to review."""
        return self.is_open and self.place is not None and self.place.status is QueueStatus.COMPLETED

    @property
    def whole(self) -> int:
        return self.counts.audience if self.counts else 0

    @property
    def to_come(self) -> int:
        """The number of recipients who have not received the campaign yet, enqueued or not."""
        return self.counts.remaining if self.counts else 0

    def may(self, action: str) -> bool:
        place, counts = self.place, self.counts
        conditions = {
            CampaignAction.RETRY_FAILED: counts and counts.failed,
            CampaignAction.ACCEPT_FAILURES: self.is_processed,
            CampaignAction.RESCHEDULE: place and not place.recipients and not place.is_enqueued,
            CampaignAction.WITHDRAW: place and not place.recipients and not place.is_enqueued,
            CampaignAction.EXTEND: place and place.is_enqueued and not place.awaits_recipients,
            CampaignAction.DELETE: self.campaign.started_at is None,
            CampaignAction.ARCHIVE: self.campaign.archived_at is None,
        }
        wanted = CampaignAction(action)
        return self.campaign.status in ALLOWED_STATUSES[wanted] and bool(conditions.get(wanted, True))


@router.get("")
async def list_campaigns(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    cursor: str | None = None,
    show: RecordState = RecordState.ACTIVE,
) -> Response:
    before = decode_cursor("campaign", cursor)[0] if cursor else _NEWEST
    found = await engine.campaigns.list_page(tenant_id=visitor.tenant_id, limit=PAGE, before=before, state=show)
    following = encode_cursor("campaign", found[-1].key) if len(found) == PAGE else None
    lines = await _rows(engine, found)
    values: dict[str, Any] = {"lines": lines, "following": following, "cursor": cursor, "shown": show}
    return await page(request, visitor, "campaigns/list.html", **values)


@router.get("/stream")
async def listen_to_all(request: Request, engine: EngineDep, visitor: ViewerDep, cursor: str | None = None) -> Response:
    """Stream the status and progress cells of the list."""
    before = decode_cursor("campaign", cursor)[0] if cursor else _NEWEST

    async def render_parts() -> dict[str, str]:
        found = await engine.campaigns.list_page(tenant_id=visitor.tenant_id, limit=PAGE, before=before)
        cells: dict[str, str] = {}
        for line in await _rows(engine, found):
            name = line.campaign.campaign_id
            cells[f"state-{name}"] = render_part(request, visitor, "campaigns/status_cell.html", line=line)
            cells[f"done-{name}"] = render_part(request, visitor, "campaigns/progress_cell.html", line=line)
        return cells

    return stream(request, visitor, f"campaigns {before}", render_parts)


@router.get("/ends")
async def show_forecasts(request: Request, engine: EngineDep, visitor: ViewerDep) -> Response:
    """Estimate when each queued campaign finishes. Loaded after the list."""
    found = await forecast(engine.database, engine.clock, engine.defaults, tenant_id=visitor.tenant_id)
    return fragment(request, visitor, "campaigns/forecast_cells.html", courses=found.campaigns, workers=found.workers)


@router.get("/{campaign_id}")
async def show(request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str) -> Response:
    """Show a draft with its pre-send check, or a started campaign with its progress."""
    return await _page(request, engine, visitor, await find_visible(engine, visitor, campaign_id))


@router.get("/{campaign_id}/stream")
async def listen(
    request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str, reviewed: ReviewedQuery = ""
) -> Response:
    """Stream the live parts. Their forms keep the digests of what the page showed when it was opened."""
    await find_visible(engine, visitor, campaign_id)

    async def render_parts() -> dict[str, str]:
        campaign = await find_visible(engine, visitor, campaign_id)
        line = await load_row(engine, campaign)
        form = Fields(fields_from(campaign.definition, visitor.zone))
        values: dict[str, Any] = {"line": line, "rate": await _rate(engine, line), "form": form, "errors": Errors()}
        values |= {**await _card_values(engine, visitor, line), "reviewed": reviewed}
        parts = [each for each in _LIVE_PARTS if line.counts or each != "progress"]
        return {
            each: render_part(request, visitor, f"campaigns/{each.replace('-', '_')}.html", **values) for each in parts
        }

    return stream(request, visitor, f"campaign {campaign_id} {reviewed}", render_parts)


@router.get("/{campaign_id}/forecast")
async def show_forecast(request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str) -> Response:
    """Estimate when the campaign finishes and what would change that. Loaded after the page."""
    database, clock, tenant_id = engine.database, engine.clock, visitor.tenant_id
    found = await forecast(database, clock, engine.defaults, tenant_id=tenant_id)
    why = await explain_campaign(
        database,
        clock,
        engine.defaults,
        campaign_id,
        tenant_id=tenant_id,
        foreseen=found.campaigns,
        approvals=engine.campaign_approvals,
    )
    course = next((each for each in found.campaigns if each.campaign_id == campaign_id), None)
    values: dict[str, Any] = {"why": why, "course": course, "found": found, "workers": found.workers}
    return fragment(request, visitor, "campaigns/forecast.html", **values)


@router.get("/{campaign_id}/checks")
async def check(
    request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str, reviewed: ReviewedQuery = ""
) -> Response:
    """Run the pre-send check and estimate the end. Loaded after the page, because it counts the audience."""
    campaign = await find_visible(engine, visitor, campaign_id)
    definition, tenant_id = campaign.definition, visitor.tenant_id

    async def ask() -> tuple[CampaignCheck, Forecast]:
        examined = await check_campaign(
            engine.database,
            engine.templates,
            definition,
            tenant_id=tenant_id,
            now=engine.clock.now(),
            facts=PresendContext(postal_address=engine.postal_address, limits=engine.defaults.limits),
            counts_excluded=True,
            rules=engine.campaigns.rules,
            attachments=campaign.attachments,
        )
        draft = ForecastDraft(definition, tenant_id, examined.planned)
        return examined, await forecast(
            engine.database, engine.clock, engine.defaults, tenant_id=tenant_id, draft=draft
        )

    examined, foreseen = await result_cache_of(request).get(("preflight", campaign.key, campaign.updated_at), ask)
    course = next(each for each in foreseen.campaigns if each.campaign_id == DRAFT_ID)
    values: dict[str, Any] = {
        "examined": examined,
        "course": course,
        "ends_soon": course.finishes_at is not None and course.finishes_at < engine.clock.now() + MINUTE,
        "workers": foreseen.workers,
        "fixes": [_fix(visitor, campaign, each.field, each.code, each.locale) for each in examined.problems],
        "warning_fixes": [
            _fix(visitor, campaign, _WARNING_FIELDS.get(each.where, each.where), each.code, each.locale)
            for each in examined.warnings
        ],
        "campaign": campaign,
        "readiness": await readiness_of(engine, visitor, campaign),
        "reviewed": reviewed,
        "advice": ADVICE.get,
        "exclusions": EXCLUSION_TEXT,
        "zone_name": str(visitor.zone),
        **await _approval_values(engine, campaign, examined),
        **await _audience_names(engine, visitor),
    }
    return fragment(request, visitor, "campaigns/checks.html", **values)


async def _approval_values(engine: Engine, campaign: Campaign, examined: CampaignCheck) -> dict[str, Any]:
    """Return whether a second person must approve a draft first, and why."""
    digests = await review_draft(engine.database, engine.templates, campaign, engine.campaigns.rules)
    async with engine.database.read() as tx:
        gate = await load_gate(tx, campaign.tenant_id, campaign.key)
    return {
        "approval_refusal": gate.refusal(digests, examined.planned),
        "approval_status": gate.approval.status if gate.approval is not None else None,
    }


async def _audience_names(engine: Engine, visitor: Visitor) -> dict[str, Any]:
    """Return the names of the tenant's lists and segments by their keys."""
    known = await lists.list_all(engine.database, visitor.tenant_id, with_archived=True)
    saved = await segments.list_all(engine.database, visitor.tenant_id)
    return {
        "list_names": {each.list_key: each.name for each in known},
        "segment_names": {each.segment_key: each.name for each in saved},
    }


def _fix(visitor: Visitor, campaign: Campaign, field: str, code: str, locale: str) -> FixPage:
    """Return the link to the settings, to the template in the language of the issue, or to the step and field."""
    content = campaign.definition.content
    if code in FIX_PAGES and visitor.may(Role.ADMIN):
        return FIX_PAGES[code]
    is_in_subject = field == "content.subject" or code == "MISSING_VARIABLE"
    is_in_template = field in _CONTENT_FIELDS or (is_in_subject and not content.subject)
    if content.template_id and (is_in_template or (field == TEMPLATE_FIELD and code != UNKNOWN_TEMPLATE)):
        # The composer leads to the source editor if the template is source code.
        query = {"campaign": campaign.campaign_id, **({"locale": locale} if locale else {})}
        return FixPage(f"/templates/{content.template_id}/compose?{urlencode(query)}", gettext("Fix this"))
    return FixPage(
        f"/campaigns/{campaign.campaign_id}/edit/{step_of(field)}#{_FOCUSED.get(field, field)}", gettext("Fix this")
    )


@router.get("/{campaign_id}/mail")
async def show_mail(
    engine: EngineDep,
    visitor: ViewerDep,
    campaign_id: str,
    *,
    version: str = "",
    scheme: str = "light",
    contact: str = "",
) -> Response:
    """Render the email for the preview frame."""
    campaign = await find_visible(engine, visitor, campaign_id)
    trial = CampaignTestSend(campaign_id, visitor.tenant_id, campaign.definition, (), contact.strip() or None)
    try:
        versions = await render_variants(engine.database, engine.templates, trial)
    except MailwrightError as error:
        return email_frame(previews.notice(error.text))
    found = versions.get(version) or next(iter(versions.values()))
    return email_frame(previews.preview_html(found, is_dark=scheme == "dark"))


@router.get("/{campaign_id}/content")
async def show_content(
    request: Request, engine: EngineDep, visitor: ViewerDep, campaign_id: str, *, version: str = "", contact: str = ""
) -> Response:
    """Show recipients, limits and a preview of the email."""
    line = await load_row(engine, await find_visible(engine, visitor, campaign_id))
    shown = await _mail_values(engine, line.campaign, version, contact)
    form = fields_from(line.campaign.definition, visitor.zone)
    values: dict[str, Any] = {"line": line, "tabs": tabs_of(line), "form": form, "errors": Errors(), **shown}
    return await page(request, visitor, "campaigns/content.html", **values)


@router.get("/{campaign_id}/recipients")
async def show_recipients(
    request: Request,
    engine: EngineDep,
    visitor: ViewerDep,
    campaign_id: str,
    *,
    show: RecipientShow = "all",
    cursor: str = "",
) -> Response:
    """List the recipients who have a message: by address, or rare buckets in the order of creation."""
    line = await load_row(engine, await find_visible(engine, visitor, campaign_id))
    wanted = parse_recipient_filter(show)
    if isinstance(wanted, Bucket) and wanted is not Bucket.SENT:
        after = decode_cursor(show, cursor)[0] if cursor else 0
        lane = line.place.lane if line.place else 0
        found = await report.bucket_page(engine.database, lane, wanted, limit=RECIPIENTS_PAGE, after=after)
        following = encode_cursor(show, found[-1].key) if len(found) == RECIPIENTS_PAGE else None
    else:
        found = await report.report_page(
            engine.database, line.campaign.key, limit=RECIPIENTS_PAGE, after=cursor[:320], show=wanted
        )
        following = found[-1].email if len(found) == RECIPIENTS_PAGE else None
    async with engine.database.read() as tx:
        reported = await count_results(tx, line.campaign.key)
    values: dict[str, Any] = {
        "line": line,
        "found": found,
        "following": following,
        "shown": show,
        "filters": _recipient_filters(line, reported),
        "tabs": tabs_of(line),
        "decisions": RESOLUTIONS,
    }
    return await page(request, visitor, "campaigns/recipients.html", **values)


@router.get("/{campaign_id}/in-doubt")
async def show_in_doubt(visitor: ViewerDep, campaign_id: str) -> Response:
    """Redirect to the unconfirmed emails, which the API and the command line call `in-doubt`."""
    return RedirectResponse(f"/campaigns/{campaign_id}/recipients?show={Bucket.IN_DOUBT}", HTTPStatus.SEE_OTHER)


# Actions.


@router.post("/{campaign_id}/start")
async def start(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Start the campaign as the user has reviewed it, now or at the send time. A refused start changes nothing."""
    form = await read_fields(request)
    await find_visible(engine, visitor, campaign_id)
    try:
        started = await engine.campaigns.start(
            _acting(visitor),
            campaign_id,
            overrides_rules=bool(form["overrideSenderRules"]),
            reviewed=form["reviewed"],
        )
    except (InvalidInput, RequestInvalid, CampaignNotStartable, NotPossibleNow) as error:
        campaign = await find_visible(engine, visitor, campaign_id)
        return await _page(request, engine, visitor, campaign, error=error, form=form)
    words = (
        gettext("Campaign scheduled.") if started.definition.scheduled_at is not None else gettext("Campaign started.")
    )
    found = await readiness_of(engine, visitor, started)
    return redirect(request, f"/campaigns/{campaign_id}", with_readiness(words, found))


@router.post("/{campaign_id}/override-sender-rules")
async def override_sender_rules(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    words = gettext("Sender rules overridden. The audit log records it.")
    return await _act(request, campaign_id, engine.campaigns.override_rules(_acting(visitor), campaign_id), words)


@router.post("/{campaign_id}/schedule")
async def reschedule(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Change the send time of a campaign that has not begun to send, or send it now."""
    form = await read_fields(request)
    is_now = form["when"] == "now"
    try:
        send_time = None if is_now else _send_time(form, visitor)
        await engine.campaigns.reschedule(_acting(visitor), campaign_id, send_time, reviewed=form["reviewed"])
    except (InvalidInput, NotPossibleNow) as error:
        return await _page(
            request, engine, visitor, await find_visible(engine, visitor, campaign_id), error=error, form=form
        )
    words = gettext("The campaign will be sent now.") if is_now else gettext("Send time changed.")
    found = await readiness_of(engine, visitor, await find_visible(engine, visitor, campaign_id))
    return redirect(request, f"/campaigns/{campaign_id}", with_readiness(words, found))


@router.get("/{campaign_id}/send-now")
async def confirm_send_now(
    request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str, reviewed: ReviewedQuery = ""
) -> Response:
    """Show the button that sends a scheduled campaign now. Loaded after the page, because it counts the audience."""
    campaign = await find_visible(engine, visitor, campaign_id)
    counted = await count_audience(engine.database, visitor.tenant_id, campaign.definition, engine.clock.now())
    problem = " ".join(dict.fromkeys(sentence(each.message) for each in counted.problems))
    values: dict[str, Any] = {
        "campaign": campaign,
        "counted": counted,
        "problem": problem,
        "readiness": await readiness_of(engine, visitor, campaign),
        "reviewed": reviewed,
    }
    return fragment(request, visitor, "campaigns/send_now.html", **values)


@router.post("/{campaign_id}/move")
async def move(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    form = await read_fields(request)
    action = engine.campaigns.move(_acting(visitor), campaign_id, form.number("position") or 1)
    return await _act(request, campaign_id, action, gettext("Position in the queue changed."))


@router.post("/{campaign_id}/pause")
async def pause(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    words = gettext("Campaign paused. It keeps its position in the queue.")
    return await _act(request, campaign_id, engine.campaigns.pause(_acting(visitor), campaign_id), words)


@router.post("/{campaign_id}/resume")
async def resume(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    reviewed = (await read_fields(request))["reviewed"]
    action = engine.campaigns.resume(_acting(visitor), campaign_id, reviewed=reviewed)
    return await _act(request, campaign_id, action, gettext("Campaign resumed."))


@router.post("/{campaign_id}/cancel")
async def cancel(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    words = gettext("Campaign cancelled.")
    return await _act(request, campaign_id, engine.campaigns.cancel(_acting(visitor), campaign_id), words)


@router.post("/{campaign_id}/retry")
async def retry_failed(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    try:
        _, found = await engine.campaign_failures.retry_failed(_acting(visitor), campaign_id)
    except NotPossibleNow as error:
        return redirect(request, f"/campaigns/{campaign_id}", error.text, tone="bad")
    return redirect(request, f"/campaigns/{campaign_id}", retry_text(found))


@router.post("/{campaign_id}/resolve")
async def resolve_in_doubt(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Resolve all unconfirmed emails at once."""
    decision = resolution_of((await read_fields(request))["as"])
    resolving = engine.campaign_failures.resolve_in_doubt(_acting(visitor), campaign_id, decision)
    return await _act(request, campaign_id, resolving, _RESOLVED[decision])


@router.post("/{campaign_id}/accept")
async def accept_failures(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    words = gettext("Failures accepted. The campaign is finished.")
    return await _act(
        request, campaign_id, engine.campaign_failures.accept_failures(_acting(visitor), campaign_id), words
    )


@router.post("/{campaign_id}/accept-incidents")
async def accept_incidents(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    action = engine.campaign_guard.accept_incidents(_acting(visitor), campaign_id)
    return await _act(request, campaign_id, action, gettext("Accepted. Only emails sent from now on count."))


@router.post("/{campaign_id}/open-wave")
async def open_wave(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Open the wave after the one that the page shows, so that two users do not open two waves."""
    form = await read_fields(request)
    action = engine.campaign_guard.open_next_wave(
        _acting(visitor), campaign_id, wave=form.number("wave") or 0, reviewed=form["reviewed"]
    )
    return await _act(request, campaign_id, action, gettext("The next wave is open."))


@router.post("/{campaign_id}/extend")
async def extend(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    form = await read_fields(request)
    segment, reviewed = form["segment"] or None, form["reviewed"]
    action = engine.campaigns.extend(_acting(visitor), campaign_id, segment=segment, reviewed=reviewed)
    return await _act(request, campaign_id, action, gettext("Campaign extended to new recipients."))


@router.get("/{campaign_id}/new-recipients")
async def confirm_extension(
    request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str, segment: SegmentQuery = ""
) -> Response:
    """Show the button that sends to new recipients. Loaded after the page, because it counts them."""
    campaign = await find_visible(engine, visitor, campaign_id)
    values: dict[str, Any] = {"campaign_id": campaign_id, "problem": "", "segment": segment}
    values["readiness"] = await readiness_of(engine, visitor, campaign)
    try:
        values["added"], values["reviewed"] = await preview_extension(
            engine.database, engine.clock, _acting(visitor), campaign_id, segment or None
        )
    except (NotPossibleNow, InvalidInput) as error:
        values["problem"] = sentence(error.text)
    return fragment(request, visitor, "campaigns/new_recipients.html", **values)


@router.post("/{campaign_id}/winner")
async def choose_winner(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    form = await read_fields(request)
    version, reviewed = form["version"], form["reviewed"]
    action = engine.campaigns.choose_winner(_acting(visitor), campaign_id, version, reviewed=reviewed)
    words = gettext("Variant {version} is sent to all remaining recipients.", version=version[:100])
    return await _act(request, campaign_id, action, words, back=f"/campaigns/{campaign_id}/report")


@router.post("/{campaign_id}/duplicate")
async def duplicate(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    made = await engine.campaigns.duplicate(_acting(visitor), campaign_id)
    return redirect(request, f"/campaigns/{made.campaign_id}/edit/content", gettext("Campaign duplicated as a draft."))


@router.post("/{campaign_id}/test")
async def send_test(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    form = await read_fields(request)
    addresses = [each for each in form["addresses"].replace(";", ",").replace(" ", ",").split(",") if each]
    try:
        sent = await engine.campaigns.test_send(
            _acting(visitor), campaign_id, addresses, as_contact=form["asContact"] or None
        )
    except (InvalidInput, CampaignNotStartable) as error:
        campaign = await find_visible(engine, visitor, campaign_id)
        return await _page(request, engine, visitor, campaign, error=error, form=form)
    await engine.users.remember_test_addresses(visitor.user, form["addresses"])
    words = gettext("1 test email sent.") if len(sent) == 1 else gettext("{sent} test emails sent.", sent=len(sent))
    return redirect(request, f"/campaigns/{campaign_id}", with_readiness(words, await readiness_of(engine, visitor)))


@router.post("/{campaign_id}/limits")
async def edit_limits(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Change the limits, even while the campaign is being sent."""
    form = await read_step(request)
    try:
        await engine.campaigns.edit_limits(_acting(visitor), campaign_id, limits_of(form))
    except (InvalidInput, RequestInvalid, NotPossibleNow) as error:
        line = await load_row(engine, await find_visible(engine, visitor, campaign_id))
        shown = await _mail_values(engine, line.campaign, "", "")
        values: dict[str, Any] = {
            "line": line,
            "tabs": tabs_of(line),
            "form": form,
            "errors": field_errors_of(error),
            **shown,
        }
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        return await page(request, visitor, "campaigns/content.html", status=status, **values)
    words = gettext("Limits saved. They apply from the next batch.")
    return redirect(request, f"/campaigns/{campaign_id}/content", words)


async def _act(
    request: Request, campaign_id: str, action: Awaitable[Any], words: str, *, back: str | None = None
) -> Response:
    """Run an action and redirect; if it is not possible, show the reason."""
    to = back or f"/campaigns/{campaign_id}"
    try:
        await action
    except (NotPossibleNow, InvalidInput) as error:
        return redirect(request, to, error.text, tone="bad")
    return redirect(request, to, words)


def _send_time(form: Fields, visitor: Visitor) -> Instant:
    try:
        return parse_time(form["scheduledAt"], visitor.zone)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(gettext("Choose a date and time."), field="scheduledAt") from error


# Values for the templates.


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    campaign: Campaign,
    *,
    error: MailwrightError | None = None,
    form: Fields | None = None,
) -> Response:
    is_draft = campaign.status is CampaignStatus.DRAFT
    # Compute the digests before anything is shown, so that a change after this moment is detected and the start
    # refused.
    reviewed = review_started(campaign)
    if is_draft:
        reviewed = await review_draft(engine.database, engine.templates, campaign, engine.campaigns.rules)
    line, errors = await load_row(engine, campaign), field_errors_of(error) if error is not None else Errors()
    values: dict[str, Any] = {
        "line": line,
        "reviewed": reviewed,
        "rate": await _rate(engine, line),
        "tabs": tabs_of(line),
        "errors": errors,
        "refused": error.problems if isinstance(error, CampaignNotStartable) else (),
        "form": form or Fields(fields_from(campaign.definition, visitor.zone)),
        "error_links": error_links(errors, f"/campaigns/{campaign.campaign_id}", None),
        **await _card_values(engine, visitor, line),
    }
    if is_draft:
        values |= await review_values(request, engine, visitor, campaign)
    template = "campaigns/draft.html" if is_draft else "campaigns/show.html"
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, template, status=status, **values)


async def _card_values(engine: Engine, visitor: Visitor, line: CampaignRow) -> dict[str, Any]:
    """Return the values for the cards of a campaign: its guard rails, activity and possible actions."""
    campaign_id, tenant_id = line.campaign.campaign_id, visitor.tenant_id
    guard = None
    if line.place is not None:  # A draft is not in the queue, and a discarded draft never was.
        guard = await engine.campaign_guard.report(campaign_id, tenant_id=tenant_id)
    return {
        "zone_name": str(visitor.zone),
        "readiness": await readiness_of(engine, visitor, line.campaign),
        "guard": guard,
        "guard_finding_text": guard_finding_text,
        "guard_actions": GUARD_ACTIONS,
        "segments": await segments.list_all(engine.database, tenant_id),
        "activity": await audit_log.list_entries(
            engine.database, tenant_id=tenant_id, limit=_ACTIVITY_SHOWN, subject=campaign_id
        ),
    }


async def review_values(request: Request, engine: Engine, visitor: Visitor, campaign: Campaign) -> dict[str, Any]:
    """Return the email as a few recipients would get it, and the address of the last test email."""
    query, now = request.query_params, engine.clock.now()
    samples = await choose_samples(
        engine.database, engine.templates, campaign.definition, tenant_id=campaign.tenant_id, now=now
    )
    contact = query.get("contact") or (samples[0].email if samples else "")
    return {
        **await _mail_values(engine, campaign, query.get("version", ""), contact),
        **await _audience_names(engine, visitor),
        "samples": samples,
        "sample": next((each for each in samples if each.email == contact), None),
        "steps": steps_of(campaign),
        "repeat": await find_repeat(engine, campaign),
        "default_sender": engine.settings.sender,
        "test_addresses": await engine.users.test_addresses(visitor.user)
        or email_of(visitor.user.login, visitor.user.email),
    }


async def _mail_values(engine: Engine, campaign: Campaign, version: str, contact: str) -> dict[str, Any]:
    """Return the subject and text of the email; its HTML is served by `show_mail`."""
    trial = CampaignTestSend(campaign.campaign_id, campaign.tenant_id, campaign.definition, (), contact.strip() or None)
    values: dict[str, Any] = {"version": version, "contact": contact, "email": None, "problem": None, "has_dark": False}
    values["given"] = variables_text(campaign.definition.variables)
    try:
        versions = await render_variants(engine.database, engine.templates, trial)
    except MailwrightError as error:
        return {**values, "problem": error.text, "versions": []}
    found = versions.get(version) or next(iter(versions.values()))
    has_dark = previews.has_dark_style(found.html or "")
    return {**values, "email": found, "versions": list(versions), "has_dark": has_dark}


def tabs_of(line: CampaignRow) -> list[tuple[str, str]]:
    if line.campaign.status is CampaignStatus.DRAFT:
        return []
    path = f"/campaigns/{line.campaign.campaign_id}"
    places = (
        (path, gettext("Progress")),
        (f"{path}/recipients", gettext("Recipients")),
        (f"{path}/report", gettext("Report")),
    )
    return (
        [*places, (f"{path}/content", gettext("Content and limits"))]
        if line.place
        else [(f"{path}/content", gettext("Content"))]
    )


def _recipient_filters(line: CampaignRow, reported: Mapping[str, int]) -> list[tuple[str, str, int | None]]:
    """Return each filter with its label and number. Filters without recipients are left out, except failures."""
    counts = line.counts
    if counts is None:
        return [("all", gettext("All"), 0)]
    shown: list[tuple[str, str, int | None]] = [
        (bucket.value, label, counts.buckets[bucket])
        for bucket, label in BUCKET_LABELS.items()
        if bucket not in WITHOUT_MESSAGE
        and (counts.buckets[bucket] or bucket in (Bucket.SENT, Bucket.FAILED, Bucket.IN_DOUBT))
    ]
    opened, clicked = reported.get(EventType.OPENED, 0), reported.get(EventType.CLICKED, 0)
    responses: list[tuple[str, str, int | None]] = []
    if opened or clicked or reported.get(EventType.SENT):  # Of SENT, only emails that are tracked are counted.
        responses = [
            ("opened", gettext("Opened"), opened),
            ("clicked", gettext("Clicked"), clicked),
            ("did_not_open", gettext("Did not open"), None),
        ]
    return [("all", gettext("All"), counts.recipients), *shown, *responses]


async def _rows(engine: Engine, found: list[Campaign]) -> list[CampaignRow]:
    await refresh_queue(engine.database, engine.clock, engine.defaults)
    async with engine.database.read() as tx:
        keys = [campaign.key for campaign in found]
        places = await progress.find_positions(tx, keys)
        counted = await progress.count_messages_of(tx, places)
    known = {place.campaign_id: (place, counts) for place, counts in zip(places, counted, strict=True)}
    return [CampaignRow(each, *known.get(each.campaign_id, (None, None))) for each in found]


async def load_row(engine: Engine, campaign: Campaign) -> CampaignRow:
    [line] = await _rows(engine, [campaign])
    async with engine.database.read() as tx:
        through = await progress.sent_through(tx, campaign.key)
    return replace(line, sent_to=await find_sent_to(engine.settings, engine.database, through))


async def _rate(engine: Engine, line: CampaignRow) -> float:
    """Return emails per second while the campaign is being sent."""
    is_moving = line.place is not None and line.place.status is QueueStatus.PROCESSING
    return await sending_rate(engine.database, engine.clock.now()) if is_moving else 0.0


async def find_visible(engine: Engine, visitor: Visitor, campaign_id: str) -> Campaign:
    return await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)


def _acting(visitor: Visitor) -> Actor:
    return Actor(visitor.actor, visitor.tenant_id)
