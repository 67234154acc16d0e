"""The campaign editor with its live preview."""

from datetime import tzinfo
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import contacts, lists, segments
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import PresendContext
from mailwright.content.template import RenderedEmail
from mailwright.content.variables import STANDARD_VARIABLES
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.schedule import is_past
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.campaigns.checks import PAST_SEND_TIME_WARNING, require_existing
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.test_send import CampaignTestSend, render_variants
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.web.dashboard.campaigns_forms import VERBATIM, definition_of, field_errors_of, fields_from, variant_rows
from mailwright.web.dashboard.editor_preview import EditorPreview
from mailwright.web.dashboard.forms import Errors, Fields, field_sentence, read_fields, read_values, sentence
from mailwright.web.dashboard.shell import PageRoute, page, redirect
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/campaigns", route_class=PageRoute, include_in_schema=False)

FORMATS: Final = ((TemplateFormat.MARKDOWN, "Markdown"), (TemplateFormat.MJML, "MJML"), (TemplateFormat.HTML, "HTML"))
# Maximum number of contacts that the preview offers. Their attributes are offered as variables.
_SUGGESTED_CONTACTS: Final = 20
_MAX_TEMPLATES: Final = 200
# Issues about the unsubscribe link, which is added automatically.
_ADDED_LATER: Final = ("NO_UNSUBSCRIBE_LINK", "NO_UNSUBSCRIBE_LINK_IN_TEXT")
# The fields that change the email itself.
_SHOWN: Final = ("content.", "variables", "experiment")


_STARTER_BODY: Final = """# Hello {{ name }}

Write your email here.

---

{{ postal_address }} · [Unsubscribe]({{ unsubscribe_url }})
"""


@router.get("/new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = Fields({"content.format": TemplateFormat.MARKDOWN, "content.body": _STARTER_BODY})
    form["content.templateId"] = request.query_params.get("template", "")
    form["segment"] = request.query_params.get("segment", "")
    return await _page(request, engine, visitor, form, request.query_params.getlist("list"))


@router.post("/new")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form, on_lists = await read_fields(request, verbatim=VERBATIM), await read_values(request, "lists")
    try:
        definition = definition_of(form, on_lists, visitor.zone)
        await require_existing(engine.database, visitor.tenant_id, definition)
        made = await engine.campaigns.create(Actor(visitor.actor, visitor.tenant_id), visitor.tenant_id, definition)
    except (InvalidInput, RequestInvalid) as error:
        return await _page(request, engine, visitor, form, on_lists, error=error)
    words = "Draft saved. Nothing is sent until you start the campaign."
    return redirect(request, f"/campaigns/{made.campaign_id}", _with_warning(words, made))


@router.get("/{campaign_id}/edit")
async def show_edit(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    if campaign.status is not CampaignStatus.DRAFT:
        words = "A started campaign cannot be edited, except for its limits. Duplicate it to change its content."
        return redirect(request, f"/campaigns/{campaign_id}", words, tone="bad")
    form = fields_from(campaign.definition, visitor.zone)
    return await _page(request, engine, visitor, form, list(campaign.definition.lists), campaign=campaign)


@router.post("/{campaign_id}/edit")
async def edit(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    form, on_lists = await read_fields(request, verbatim=VERBATIM), await read_values(request, "lists")
    try:
        definition = definition_of(form, on_lists, visitor.zone, campaign.definition)
        await require_existing(engine.database, visitor.tenant_id, definition)
        saved = await engine.campaigns.edit(Actor(visitor.actor, visitor.tenant_id), campaign_id, definition)
    except (InvalidInput, RequestInvalid) as error:
        return await _page(request, engine, visitor, form, on_lists, campaign=campaign, error=error)
    return redirect(request, f"/campaigns/{campaign_id}", _with_warning("Draft saved.", saved))


@router.post("/preview")
async def show_mail(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=VERBATIM)
    return await EditorPreview(form, _render(engine, visitor, form), _sentence).frame()


@router.post("/preview/details")
async def show_preview_details(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=VERBATIM)
    preview = EditorPreview(form, _render(engine, visitor, form), _sentence)
    context = PresendContext(postal_address=engine.postal_address)
    return await preview.details(request, visitor, context, added_later=_ADDED_LATER)


async def _render(engine: Engine, visitor: Visitor, form: Fields) -> RenderedEmail:
    definition = _preview_definition(form, visitor.zone)
    trial = CampaignTestSend("", visitor.tenant_id, definition, (), form["as_contact"] or None)
    versions = await render_variants(engine.database, engine.templates, trial)
    return versions.get(form["version"]) or next(iter(versions.values()))


def _preview_definition(form: Fields, zone: tzinfo) -> CampaignDefinition:
    """Build a definition from only the fields that the email shows, so that an incomplete form has a preview."""
    shown = Fields({name: value for name, value in form.items() if name.startswith(_SHOWN)})
    shown["name"] = form["name"] or "Preview"
    if not shown["content.templateId"]:
        shown["content.subject"] = shown["content.subject"] or "(no subject)"
    return definition_of(shown, (), zone)


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    form: Fields,
    on_lists: list[str],
    *,
    campaign: Campaign | None = None,
    error: MailwrightError | None = None,
) -> Response:
    tenant_id = visitor.tenant_id
    suggested = await contacts.list_page(engine.database, tenant_id, limit=_SUGGESTED_CONTACTS, status="active")
    attributes = sorted({name for contact in suggested for name in contact.attributes if name.isidentifier()})
    values: dict[str, Any] = {
        "form": form,
        "on_lists": on_lists,
        "campaign": campaign,
        "errors": field_errors_of(error) if error is not None else Errors(),
        "formats": FORMATS,
        "variants": variant_rows(form),
        "lists": await lists.list_all(engine.database, tenant_id),
        "segments": await segments.list_all(engine.database, tenant_id),
        "templates": await engine.templates.list_page(tenant_id, limit=_MAX_TEMPLATES),
        "contacts": suggested,
        "offered": [*STANDARD_VARIABLES, *(name for name in attributes if name not in STANDARD_VARIABLES)],
        "zone_name": str(visitor.zone),
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, "campaigns/compose.html", status=status, **values)


def _with_warning(words: str, saved: Campaign) -> str:
    """Add a warning to the confirmation if the send time that was saved is in the past."""
    scheduled_at = saved.definition.scheduled_at
    is_late = scheduled_at is not None and is_past(scheduled_at, saved.updated_at)
    return f"{words} {PAST_SEND_TIME_WARNING}" if is_late else words


def _sentence(error: MailwrightError) -> str:
    match error:
        case CampaignNotStartable():
            return " ".join(dict.fromkeys(sentence(each.message) for each in error.problems))
        case RequestInvalid():
            return " ".join(dict.fromkeys(field_sentence(each) for each in error.errors))
        case _:
            return sentence(str(error))
