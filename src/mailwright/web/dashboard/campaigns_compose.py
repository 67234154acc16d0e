"""The steps of a new campaign: content, audience and sender, schedule and limits. Each saves its part of the draft."""

from collections.abc import Mapping
from datetime import tzinfo
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.actions.exclusions import EXCLUSION_TEXT
from mailwright.app.wiring import Engine
from mailwright.audience import contacts, lists, segments
from mailwright.content.attachments import MAX_ATTACHMENTS, MAX_ATTACHMENTS_BYTES
from mailwright.content.formats import TemplateFormat
from mailwright.content.presend_checks import PresendContext, PresendIssue
from mailwright.content.template import RenderedEmail
from mailwright.content.variables import STANDARD_VARIABLES
from mailwright.domain.campaign import CampaignStatus
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.schedule import is_past
from mailwright.domain.translation import gettext
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.campaigns.checks import (
    PAST_SEND_TIME_WARNING,
    check_campaign_content,
    count_audience,
    require_existing,
)
from mailwright.sources.campaigns.definition import CampaignDefinition
from mailwright.sources.campaigns.records import Actor, Campaign
from mailwright.sources.campaigns.test_send import CampaignTestSend, render_variants
from mailwright.sources.campaigns.variants import CampaignNotStartable
from mailwright.texts.sentences import sentence
from mailwright.web.dashboard.campaigns_designs import create_design, list_designs
from mailwright.web.dashboard.campaigns_forms import (
    VERBATIM,
    DraftStep,
    definition_of,
    error_links,
    field_errors_of,
    fields_from,
    read_step,
    saved_step,
    variant_rows,
)
from mailwright.web.dashboard.editor_preview import EditorPreview
from mailwright.web.dashboard.forms import Errors, Fields, field_sentence, read_fields
from mailwright.web.dashboard.pasted_links import LINKS_REPLACED, with_shared_links
from mailwright.web.dashboard.shell import PageRoute, fragment, page, redirect
from mailwright.web.dashboard.templates_new import template_id_for
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(prefix="/campaigns", route_class=PageRoute, include_in_schema=False)

FORMATS: Final = ((TemplateFormat.MARKDOWN, "Markdown"), (TemplateFormat.MJML, "MJML"), (TemplateFormat.HTML, "HTML"))
# Maximum number of contacts that the preview offers. Their attributes are offered as variables.
_SUGGESTED_CONTACTS: Final = 20
_MAX_TEMPLATES: Final = 200
# The fields that change the email itself.
_SHOWN: Final = ("content.", "variables", "experiment")
_NEXT: Final[Mapping[DraftStep, str]] = {
    DraftStep.CONTENT: f"/edit/{DraftStep.AUDIENCE}",
    DraftStep.AUDIENCE: f"/edit/{DraftStep.SCHEDULE}",
    DraftStep.SCHEDULE: "",
}
# The value of the button that saves a step and opens the composer with a new design. A name follows it.
_DESIGN: Final = "design:"


class _ContentKind(StrEnum):
    """The kinds of content that the form offers."""

    DESIGN = "design"
    TEMPLATE = "template"
    SOURCE = "source"


_WRITTEN: Final = ("content.body", "content.text", "content.format")
_STARTER_BODY: Final = """# Hello {{ name|default("there", true) }}

Write your email here.

---

{{ postal_address }} · [Unsubscribe]({{ unsubscribe_url }})
"""


@router.get("/new")
async def show_new(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    return await _page(request, engine, visitor, DraftStep.CONTENT, _with_sample_body(_prefilled(request)))


@router.post("/new")
async def create(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Create a draft from the first step. Lists and a segment may come from the address of the page."""
    form = _chosen(await read_step(request))
    prefilled = {name: value for name, value in _prefilled(request).items() if name in ("lists", "segment")}
    return await _save(request, engine, visitor, DraftStep.CONTENT, Fields({**form, **prefilled}))


@router.get("/{campaign_id}/edit")
async def show_edit(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Continue a draft at its first step that is not complete."""
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    needs_audience = campaign.definition.content.is_written and not _has_audience(campaign.definition)
    step = DraftStep.AUDIENCE if needs_audience else DraftStep.CONTENT
    return redirect(request, f"/campaigns/{campaign_id}/edit/{step}")


@router.get("/{campaign_id}/edit/{step}")
async def show_step(
    request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str, step: DraftStep
) -> Response:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    if campaign.status is not CampaignStatus.DRAFT:
        words = gettext(
            "A started campaign cannot be edited, except for its limits. Withdraw or duplicate it to change it."
        )
        return redirect(request, f"/campaigns/{campaign_id}", words, tone="bad")
    form = fields_from(campaign.definition, visitor.zone)
    if step is DraftStep.CONTENT and not campaign.definition.content.is_written:
        form = _with_sample_body(form)
    if step is DraftStep.AUDIENCE and not _has_audience(campaign.definition):
        every = await lists.list_all(engine.database, visitor.tenant_id)
        form["lists"] = every[0].list_key if len(every) == 1 else ""
    return await _page(request, engine, visitor, step, form, campaign=campaign)


@router.post("/{campaign_id}/edit/{step}")
async def save_step(
    request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str, step: DraftStep
) -> Response:
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    return await _save(request, engine, visitor, step, _chosen(await read_step(request)), campaign)


@router.post("/{campaign_id}/count")
async def count(request: Request, engine: EngineDep, visitor: EditorDep, campaign_id: str) -> Response:
    """Count the audience of the form, which need not be saved."""
    campaign = await engine.campaigns.find(campaign_id, tenant_id=visitor.tenant_id)
    try:
        definition = saved_step(DraftStep.AUDIENCE, await read_step(request), visitor.zone, campaign.definition)
    except (InvalidInput, RequestInvalid) as error:
        return fragment(request, visitor, "campaigns/audience_count.html", counted=None, problem=_sentence(error))
    counted = await count_audience(engine.database, visitor.tenant_id, definition, engine.clock.now())
    problem = " ".join(dict.fromkeys(sentence(each.message) for each in counted.problems)) or None
    values: dict[str, Any] = {"counted": counted, "problem": problem, "exclusions": EXCLUSION_TEXT}
    return fragment(request, visitor, "campaigns/audience_count.html", **values)


@router.post("/preview")
async def show_mail(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=VERBATIM)
    return await EditorPreview(form, _render(engine, visitor, form), _sentence).frame()


@router.post("/preview/details")
async def show_preview_details(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request, verbatim=VERBATIM)
    preview = EditorPreview(form, _render(engine, visitor, form), _sentence)
    facts = PresendContext(postal_address=engine.postal_address)

    async def check(_: RenderedEmail) -> list[PresendIssue]:
        shown = await _shown_definition(engine, visitor, form)
        return await check_campaign_content(
            engine.database, engine.templates, shown, tenant_id=visitor.tenant_id, facts=facts
        )

    return await preview.details(request, visitor, check)


async def _shown_definition(engine: Engine, visitor: Visitor, form: Fields) -> CampaignDefinition:
    form = await with_shared_links(engine, visitor.tenant_id, form, "content.body", "content.text")
    return _preview_definition(form, visitor.zone)


async def _render(engine: Engine, visitor: Visitor, form: Fields) -> RenderedEmail:
    definition = await _shown_definition(engine, visitor, form)
    trial = CampaignTestSend("", visitor.tenant_id, definition, (), form["as_contact"] or None)
    versions = await render_variants(engine.database, engine.templates, trial)
    return versions.get(form["version"]) or next(iter(versions.values()))


def _preview_definition(form: Fields, zone: tzinfo) -> CampaignDefinition:
    """Build a definition from only the fields that the email shows, so that an incomplete form has a preview."""
    if form["way"] != _ContentKind.DESIGN:  # The page shows no preview before someone chose a design.
        form = _chosen(form)
    shown = Fields({name: value for name, value in form.items() if name.startswith(_SHOWN)})
    shown["name"] = form["name"] or gettext("Preview")
    if not shown["content.templateId"]:
        shown["content.subject"] = shown["content.subject"] or gettext("(no subject)")
    return definition_of(shown, zone)


def _prefilled(request: Request) -> Fields:
    """Return the fields that a link of another page fills in: a template, a segment, lists."""
    query = request.query_params
    form = Fields({"lists": ",".join(query.getlist("list")), "segment": query.get("segment", "")})
    form["content.templateId"] = query.get("template", "")
    return form


def _with_sample_body(form: Fields) -> Fields:
    form["content.format"], form["content.body"] = TemplateFormat.MARKDOWN, _STARTER_BODY
    return form


def _chosen(form: Fields) -> Fields:
    """Drop the fields of the kinds of content that were not chosen. The form sends the fields of all."""
    match form["way"]:
        case _ContentKind.DESIGN:
            dropped: tuple[str, ...] = ("content.templateId", *_WRITTEN)
        case _ContentKind.TEMPLATE:
            dropped = _WRITTEN
        case _ContentKind.SOURCE:
            dropped = ("content.templateId",)
        case _:
            dropped = ()
    return Fields({name: value for name, value in form.items() if name not in dropped})


def _content_kind(form: Fields, campaign: Campaign | None) -> str:
    if form["way"] in list(_ContentKind):
        return form["way"]
    if form["content.templateId"]:
        return _ContentKind.TEMPLATE
    is_written = campaign is not None and campaign.definition.content.is_written
    return _ContentKind.SOURCE if is_written else _ContentKind.DESIGN


async def _save(
    request: Request, engine: Engine, visitor: Visitor, step: DraftStep, form: Fields, campaign: Campaign | None = None
) -> Response:
    """Save a step and go on to the next one, to the list of campaigns, or to the composer."""
    actor, go = Actor(visitor.actor, visitor.tenant_id), form["go"]
    shared = await with_shared_links(engine, visitor.tenant_id, form, "content.body", "content.text")
    try:
        definition = saved_step(step, shared, visitor.zone, campaign.definition if campaign else None)
        await require_existing(engine.database, visitor.tenant_id, definition)
        if step is DraftStep.AUDIENCE and go != "later" and not _has_audience(definition):
            raise InvalidInput(gettext("Choose a list or a segment."), field="lists")
        if go.startswith(_DESIGN):
            design = go.removeprefix(_DESIGN)
            name, subject = definition.name, definition.content.subject
            template_id = await create_design(
                engine, visitor, template_id_for(name), design, name=name, subject=subject, field="content.templateId"
            )
            definition = _with_template(definition, template_id)
        if campaign is None:
            saved = await engine.campaigns.create(actor, visitor.tenant_id, definition)
        else:
            saved = await engine.campaigns.edit(actor, campaign.campaign_id, definition)
    except (InvalidInput, RequestInvalid) as error:
        return await _page(request, engine, visitor, step, form, campaign=campaign, error=error)
    path = f"/campaigns/{saved.campaign_id}"
    if go.startswith(_DESIGN):
        template_id = saved.definition.content.template_id or ""
        return redirect(request, f"/templates/{template_id}/compose?campaign={saved.campaign_id}")
    if go == "later":
        words = gettext("Saved {name} as a draft. Nothing is sent until you start it.", name=saved.name)
        return redirect(request, "/campaigns", _with_warning(words, saved))
    words = (
        gettext("Draft saved. {links_replaced}", links_replaced=LINKS_REPLACED)
        if shared != form
        else gettext("Draft saved.")
    )
    return redirect(request, f"{path}{_NEXT[step]}", _with_warning(words, saved))


def _with_template(definition: CampaignDefinition, template_id: str) -> CampaignDefinition:
    # The template has the subject from now on, so that the composer changes it.
    content = definition.content.model_copy(
        update={"template_id": template_id, "subject": None, "body": None, "text": None}
    )
    return definition.model_copy(update={"content": content})


async def _page(
    request: Request,
    engine: Engine,
    visitor: Visitor,
    step: DraftStep,
    form: Fields,
    *,
    campaign: Campaign | None = None,
    error: MailwrightError | None = None,
) -> Response:
    tenant_id, errors = visitor.tenant_id, field_errors_of(error) if error is not None else Errors()
    path = f"/campaigns/{campaign.campaign_id}" if campaign else "/campaigns/new"
    values: dict[str, Any] = {
        "form": form,
        "campaign": campaign,
        "step": step,
        "steps": steps_of(campaign),
        "errors": errors,
        "error_links": error_links(errors, path, step),
        "zone_name": str(visitor.zone),
    }
    match step:
        case DraftStep.CONTENT:
            values |= await _content_values(engine, tenant_id, form)
            values["way"] = _content_kind(form, campaign)
            values["draft_by"] = await engine.template_drafts.find_author(tenant_id, form["content.templateId"])
        case DraftStep.AUDIENCE:
            values |= {
                "lists": await lists.list_all(engine.database, tenant_id),
                "segments": await segments.list_all(engine.database, tenant_id),
                "default_sender": engine.settings.sender,
                "reply_address": engine.settings.reply_address,
            }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if error is not None else HTTPStatus.OK
    return await page(request, visitor, f"campaigns/{step}_step.html", status=status, **values)


async def _content_values(engine: Engine, tenant_id: int, form: Fields) -> dict[str, Any]:
    suggested = await contacts.list_page(engine.database, tenant_id, limit=_SUGGESTED_CONTACTS, status="active")
    attributes = sorted({name for contact in suggested for name in contact.attributes if name.isidentifier()})
    newest = await engine.templates.list_page(tenant_id, limit=_MAX_TEMPLATES)
    return {
        "formats": FORMATS,
        "variants": variant_rows(form),
        "templates": [next(iter(by_locale.values())) for by_locale in newest],
        "designs": list_designs(),
        "contacts": suggested,
        "offered": [*STANDARD_VARIABLES, *(name for name in attributes if name not in STANDARD_VARIABLES)],
        "max_attachments": MAX_ATTACHMENTS,
        "max_attachments_bytes": MAX_ATTACHMENTS_BYTES,
    }


def steps_of(campaign: Campaign | None) -> list[tuple[str, str, str | None, bool]]:
    """Return the name, the label, the path and the completeness of each step. A new campaign has no paths yet."""
    definition = campaign.definition if campaign else None
    path = f"/campaigns/{campaign.campaign_id}" if campaign else None
    is_written = definition is not None and definition.content.is_written
    is_named = definition is not None and bool(definition.content.template_id or definition.content.subject)
    has_audience = definition is not None and _has_audience(definition)
    is_done = {
        DraftStep.CONTENT: is_written and is_named,
        DraftStep.AUDIENCE: has_audience,
        DraftStep.SCHEDULE: has_audience,
    }
    labels = {
        DraftStep.CONTENT: gettext("Content"),
        DraftStep.AUDIENCE: gettext("Audience and sender"),
        DraftStep.SCHEDULE: gettext("Schedule and limits"),
    }
    found: list[tuple[str, str, str | None, bool]] = [
        (step.value, labels[step], f"{path}/edit/{step}" if path else None, is_done[step]) for step in DraftStep
    ]
    return [*found, ("review", gettext("Review"), path, False)]


def _has_audience(definition: CampaignDefinition) -> bool:
    return bool(definition.lists) or definition.is_narrowed


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
            return sentence(error.text)
