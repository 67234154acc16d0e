"""Email templates. Every change creates a new version."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import Field

from mailwright.access.roles import Scope
from mailwright.actions.context import Context
from mailwright.actions.declaration import MANAGE, READ, Argument, Line, Moment, Noun, Table, time_of
from mailwright.app.template_checks import check_template
from mailwright.app.template_removal import make_template_removal
from mailwright.content.blocks.starters import list_starters
from mailwright.content.template import InvalidSubject, InvalidTemplate
from mailwright.content.template_removal import TemplateRemoval
from mailwright.content.template_store import StoredTemplate, TemplateExists, diff_versions
from mailwright.domain.errors import NotPossibleNow
from mailwright.domain.record_state import RecordState
from mailwright.schemas.base import ResponseModel, combine
from mailwright.schemas.templates import (
    TemplateCheckResponse,
    TemplatePreviewResponse,
    TemplateRequest,
    TemplateResponse,
    TemplateVariableResponse,
    TemplateVersionResponse,
    VersionNumber,
    check_template_id,
    require_one_body,
    template_check_response,
    template_preview_response,
    template_response,
    variable_response,
)
from mailwright.sources.api.fields import Locale, RequestModel, Variables
from mailwright.sources.api.validation import FieldError, RequestInvalid

noun = Noun(
    "template",
    "Email templates.",
    "/v1",
    parameters={"template_id": ("ID", "The template id, for example receipt.")},
    tag="templates",
)


class TemplateListQuery(RequestModel):
    limit: Annotated[int, Field(ge=1, le=200, description="Maximum number of entries.")] = 50
    after: Annotated[str, Field(max_length=100, description="`nextAfter` of the previous page.")] = ""
    state: Annotated[
        RecordState, Field(description="`archived` and `deleted` templates are not among the `active` ones.")
    ] = RecordState.ACTIVE


class TemplateVersionQuery(RequestModel):
    locale: Annotated[
        Locale | None, Field(description="The latest version for this locale, for example pt or pt-BR.")
    ] = None
    version: Annotated[VersionNumber | None, Field(description="The version with this number.")] = None


class TemplateCheckQuery(TemplateVersionQuery):
    bulk: Annotated[
        bool | None,
        Field(
            description="Bulk email needs an unsubscribe link and a postal address. "
            "Default: true, unless the footer of a design is transactional."
        ),
    ] = None


class TemplateDiffQuery(RequestModel):
    before: Annotated[
        VersionNumber | None,
        Argument("[BEFORE]"),
        Field(description="The older version. Default: the previous version of the same locale."),
    ] = None
    after: Annotated[
        VersionNumber | None,
        Argument("[AFTER]"),
        Field(description="The newer version. Default: the latest version."),
    ] = None


class TemplatePreviewRequest(RequestModel):
    """Values for the variables, and the version: the latest for a locale, or one by its number."""

    variables: Variables | None = None
    locale: Locale | None = None
    version: VersionNumber | None = None


class StarterResponse(ResponseModel):
    """A template to begin with. `document` is the `blocks` of a new template."""

    name: str
    title: str
    description: str
    kind: Literal["bulk", "transactional"]
    subject: str
    variables: list[TemplateVariableResponse]
    document: dict[str, Any]


class StarterListResponse(ResponseModel):
    starters: list[StarterResponse]


class TemplateVersionListResponse(ResponseModel):
    versions: list[TemplateVersionResponse]


class TemplateSummaryResponse(ResponseModel):
    """A template with the latest version of each locale, the default version first."""

    template_id: str
    newest: list[TemplateVersionResponse]


class TemplateListResponse(ResponseModel):
    templates: list[TemplateSummaryResponse]
    next_after: str | None


class TemplateDiffResponse(ResponseModel):
    """The differences in the format of `diff -u`; empty if there are none."""

    difference: str


def _lines(found: TemplateResponse, _given: Mapping[str, Any]) -> Iterator[Line]:
    locale = f", for {found.locale}" if found.locale else ""
    created = Moment(found.created_at, names_zone=True)
    yield (f"{found.template_id}, version {found.version}{locale}, created ", created)
    yield f"Subject: {found.subject}"
    names = ", ".join(each.name if each.required else f"{each.name} (optional)" for each in found.variables)
    yield f"Variables: {names or 'none'}"
    yield f"\n{found.body}"
    if found.text is not None:
        yield f"\n{found.text}"


# `template list` prints one row for each locale, and is written by hand.
@noun.get("/templates")
async def list_templates(at: Context, query: TemplateListQuery) -> TemplateListResponse:
    """List the templates, by id, each with its latest versions."""
    found = await at.templates.list_page(at.tenant_id, limit=query.limit, after=query.after, state=query.state)
    templates = [_summary(latest) for latest in found]
    next_after = templates[-1].template_id if len(templates) == query.limit else None
    return TemplateListResponse(templates=templates, next_after=next_after)


@noun.put("/templates/{templateId}", status=HTTPStatus.CREATED, scope=Scope.PROPOSE, audit="template.write")
async def write(at: Context, template_id: str, wanted: TemplateRequest) -> TemplateResponse:
    """Create a new version. Earlier versions stay, and so do the messages that use them."""
    check_template_id(template_id)
    draft, may_manage = require_one_body(wanted).draft(), at.caller.allows(MANAGE)
    try:
        with _template_errors_name(draft.format):
            stored = await at.templates.write(
                at.tenant_id, template_id, draft, actor=at.actor, must_be_unused=not may_manage
            )
    except TemplateExists as error:
        if may_manage:
            raise
        raise NotPossibleNow(f"{error} A new version of it requires the scope `manage`.", field=error.field) from error
    return template_response(stored)


@noun.get("/templates/{templateId}", command="show", shown=_lines)
async def show(at: Context, template_id: str, query: TemplateVersionQuery) -> TemplateResponse:
    """Show the latest default version, or the requested one."""
    return template_response(await _find(at, template_id, query))


@noun.get(
    "/templates/{templateId}/versions",
    command="versions",
    shown=Table(
        "versions",
        {
            "Template!": "template_id",
            "Version#": "version",
            "Locale!": lambda each: each.locale or "default",
            "Format!": "format",
            "Subject": "subject",
            "Created ({zone})!": time_of("created_at"),
        },
        nothing="No versions.",
    ),
)
async def versions(at: Context, template_id: str) -> TemplateVersionListResponse:
    """List all versions of all locales, latest first."""
    return TemplateVersionListResponse(versions=await at.templates.versions(at.tenant_id, template_id))


@noun.get(
    "/templates/{templateId}/diff",
    command="diff",
    shown=lambda found, _given: [found.difference.rstrip("\n") or "No differences."],
)
async def diff(at: Context, template_id: str, query: TemplateDiffQuery) -> TemplateDiffResponse:
    """Compare the source of two versions."""
    compared = await at.templates.versions_to_compare(at.tenant_id, template_id, query.before, query.after)
    return TemplateDiffResponse(difference=diff_versions(*compared))


@noun.post("/templates/{templateId}/preview", scope=READ, audit=None)
async def preview(at: Context, template_id: str, wanted: TemplatePreviewRequest) -> TemplatePreviewResponse:
    """Render the email with these values. A variable without a value gets its declared sample."""
    stored = await _find(at, template_id, wanted)
    with _template_errors_name("variables"):
        rendered = stored.render(wanted.variables or {}, at.templates.standard)
    return template_preview_response(stored, rendered)


@noun.get("/templates/{templateId}/preflight")
async def check(at: Context, template_id: str, query: TemplateCheckQuery) -> TemplateCheckResponse:
    """Run the pre-send checks. Links and images are not fetched."""
    stored = await _find(at, template_id, query)
    postal_address = at.settings.sender_postal_address
    return template_check_response(
        await check_template(at.database, stored, postal_address=postal_address, is_bulk=query.bulk)
    )


@noun.delete(
    "/templates/{templateId}",
    scope=MANAGE,
    audit="template.delete",
    command="delete",
    shown="Deleted the template {template_id}. `mailwright template restore {template_id}` brings it back.",
)
async def delete(at: Context, template_id: str) -> None:
    """Delete a template. Messages that were accepted with it still use it. `restore` brings it back.

    A template that an unfinished campaign or a notification type uses cannot be deleted.
    """
    await _removal(at).delete(at.tenant_id, template_id, actor=at.actor)


@noun.post(
    "/templates/{templateId}/archive",
    scope=MANAGE,
    audit="template.archive",
    command="archive",
    shown="Archived the template {template_id}.",
)
async def archive(at: Context, template_id: str) -> None:
    """Hide a template from the list of templates. Messages can still name its id. A new version brings it back."""
    await _removal(at).archive(at.tenant_id, template_id, actor=at.actor)


@noun.post(
    "/templates/{templateId}/restore",
    scope=MANAGE,
    audit="template.restore",
    command="restore",
    shown="Restored the template {template_id}.",
)
async def restore(at: Context, template_id: str) -> None:
    """Bring back an archived or deleted template."""
    await _removal(at).restore(at.tenant_id, template_id, actor=at.actor)


# `template starters` is written by hand, because it needs no database.
@noun.get("/template-starters")
async def list_template_starters(_at: Context) -> StarterListResponse:
    """List complete emails to begin with. Save the `document` of one as the `blocks` of a template."""
    return StarterListResponse(starters=starter_responses())


def starter_responses() -> list[StarterResponse]:
    return [
        combine(StarterResponse, each, variables=[variable_response(one) for one in each.variables])
        for each in list_starters()
    ]


@contextmanager
def _template_errors_name(field: str) -> Iterator[None]:
    """Report an error in a template as an error in `field`, and an error in the subject as one in `subject`."""
    try:
        yield
    except InvalidSubject as error:
        raise RequestInvalid([FieldError("subject", error.code, str(error))]) from error
    except InvalidTemplate as error:
        raise RequestInvalid([FieldError(field, error.code, str(error))]) from error


async def _find(at: Context, template_id: str, wanted: TemplateVersionQuery | TemplatePreviewRequest) -> StoredTemplate:
    if wanted.version is not None:
        return await at.templates.version(at.tenant_id, template_id, wanted.version)
    return await at.templates.latest(at.tenant_id, template_id, wanted.locale)


def _removal(at: Context) -> TemplateRemoval:
    return make_template_removal(at.settings, at.database, at.clock)


def _summary(latest: Mapping[str, StoredTemplate]) -> TemplateSummaryResponse:
    versions = [TemplateVersionResponse.model_validate(stored) for _, stored in sorted(latest.items())]
    return TemplateSummaryResponse(template_id=versions[0].template_id, newest=versions)
