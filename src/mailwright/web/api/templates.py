"""HTTP routes of templates and their versions."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.template_checks import check_template
from mailwright.app.wiring import Engine
from mailwright.content.template import InvalidSubject, InvalidTemplate
from mailwright.content.template_store import StoredTemplate, TemplateExists, diff_versions
from mailwright.domain.errors import NotPossibleNow
from mailwright.schemas.templates import (
    TemplateCheckQuery,
    TemplateCheckResponse,
    TemplateDiffQuery,
    TemplateDiffResponse,
    TemplateListQuery,
    TemplateListResponse,
    TemplatePreviewRequest,
    TemplatePreviewResponse,
    TemplateRequest,
    TemplateResponse,
    TemplateVersionListResponse,
    TemplateVersionQuery,
    check_template_id,
    parse_template,
    template_check_response,
    template_preview_response,
    template_response,
    template_summary_response,
)
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/templates", tags=["templates"])

VersionQuery = Annotated[TemplateVersionQuery, Query()]
DiffQuery = Annotated[TemplateDiffQuery, Query()]
CheckQuery = Annotated[TemplateCheckQuery, Query()]

_REMOVAL_RESPONSES = describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: TemplateListResponse}))
async def list_templates(
    engine: EngineDep, caller: CallerDep, query: Annotated[TemplateListQuery, Query()]
) -> Response:
    """List the templates, by id, each with its latest versions."""
    found = await engine.templates.list_page(caller.tenant_id, limit=query.limit, after=query.after, state=query.state)
    templates = [template_summary_response(latest) for latest in found]
    next_after = templates[-1].template_id if len(templates) == query.limit else None
    return json_response(TemplateListResponse(templates=templates, next_after=next_after))


@router.put(
    "/{templateId}",
    scope=Scope.PROPOSE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(TemplateRequest),
    responses=describe_responses({HTTPStatus.CREATED: TemplateResponse}, *BODY_PROBLEMS),
)
async def write(request: Request, templateId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Create a new version. Earlier versions stay, and so do the messages that use them."""
    check_template_id(templateId)
    draft = parse_template(await read_json(request)).draft()
    try:
        with _template_errors_name(draft.format):
            stored = await engine.templates.write(
                caller.tenant_id,
                templateId,
                draft,
                actor=actor_of(caller),
                must_be_unused=not caller.allows(Scope.MANAGE),
            )
    except TemplateExists as error:
        if caller.allows(Scope.MANAGE):
            raise
        raise NotPossibleNow(f"{error} A new version of it requires the scope `manage`.", field=error.field) from error
    return json_response(template_response(stored), HTTPStatus.CREATED)


@router.get(
    "/{templateId}",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: TemplateResponse}, HTTPStatus.NOT_FOUND),
)
async def show(templateId: str, engine: EngineDep, caller: CallerDep, query: VersionQuery) -> Response:  # noqa: N803
    """Show the latest default version, or the requested one."""
    return json_response(template_response(await _find(engine, caller.tenant_id, templateId, query)))


@router.get(
    "/{templateId}/versions",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: TemplateVersionListResponse}, HTTPStatus.NOT_FOUND),
)
async def versions(templateId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """List all versions of all locales, latest first."""
    found = await engine.templates.versions(caller.tenant_id, templateId)
    return json_response(TemplateVersionListResponse(versions=found))


@router.get(
    "/{templateId}/diff",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: TemplateDiffResponse}, HTTPStatus.NOT_FOUND),
)
async def diff(templateId: str, engine: EngineDep, caller: CallerDep, query: DiffQuery) -> Response:  # noqa: N803
    """Compare the source of two versions."""
    before, after = await engine.templates.versions_to_compare(caller.tenant_id, templateId, query.before, query.after)
    return json_response(TemplateDiffResponse(difference=diff_versions(before, after)))


@router.post(
    "/{templateId}/preview",
    scope=Scope.READ,
    openapi_extra=describe_body(TemplatePreviewRequest),
    responses=describe_responses({HTTPStatus.OK: TemplatePreviewResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def preview(request: Request, templateId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Render the email with these values. A variable without a value gets its declared sample."""
    wanted = parse(TemplatePreviewRequest, await read_json(request))
    stored = await _find(engine, caller.tenant_id, templateId, wanted)
    with _template_errors_name("variables"):
        rendered = stored.render(wanted.variables or {}, engine.templates.standard)
    return json_response(template_preview_response(stored, rendered))


@router.get(
    "/{templateId}/preflight",
    scope=Scope.READ,
    responses=describe_responses({HTTPStatus.OK: TemplateCheckResponse}, HTTPStatus.NOT_FOUND),
)
async def check(templateId: str, engine: EngineDep, caller: CallerDep, query: CheckQuery) -> Response:  # noqa: N803
    """Run the pre-send checks. Links and images are not fetched."""
    stored = await _find(engine, caller.tenant_id, templateId, query)
    issues = await check_template(engine.database, stored, postal_address=engine.postal_address, is_bulk=query.bulk)
    return json_response(template_check_response(issues))


@router.delete("/{templateId}", scope=Scope.MANAGE, status_code=HTTPStatus.NO_CONTENT, responses=_REMOVAL_RESPONSES)
async def delete(templateId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a template. Messages that were accepted with it still use it. `restore` brings it back.

    A template that an unfinished campaign or a notification type uses cannot be deleted.
    """
    await engine.template_removal.delete(caller.tenant_id, templateId, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{templateId}/archive", scope=Scope.MANAGE, status_code=HTTPStatus.NO_CONTENT, responses=_REMOVAL_RESPONSES
)
async def archive(templateId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Hide a template from the list of templates. Messages can still name its id. A new version brings it back."""
    await engine.template_removal.archive(caller.tenant_id, templateId, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/{templateId}/restore", scope=Scope.MANAGE, status_code=HTTPStatus.NO_CONTENT, responses=_REMOVAL_RESPONSES
)
async def restore(templateId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Bring back an archived or deleted template."""
    await engine.template_removal.restore(caller.tenant_id, templateId, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


@contextmanager
def _template_errors_name(field: str) -> Iterator[None]:
    """Report an error in a template as an error in `field`, and an error in the subject as one in `subject`."""
    try:
        yield
    except InvalidSubject as error:
        raise RequestInvalid([FieldError("subject", error.code, str(error))]) from error
    except InvalidTemplate as error:
        raise RequestInvalid([FieldError(field, error.code, str(error))]) from error


async def _find(
    engine: Engine, tenant_id: int, template_id: str, wanted: TemplateVersionQuery | TemplatePreviewRequest
) -> StoredTemplate:
    if wanted.version is not None:
        return await engine.templates.version(tenant_id, template_id, wanted.version)
    return await engine.templates.latest(tenant_id, template_id, wanted.locale)
