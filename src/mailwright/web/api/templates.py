"""Templates over HTTP: written in versions, shown, compared, previewed and checked."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from mailwright.content.presend_checks import PresendContext, run_presend_checks
from mailwright.content.template import InvalidTemplate
from mailwright.content.template_store import StoredTemplate, diff_versions
from mailwright.schemas import templates as answers
from mailwright.sources.api.requests import FieldError, Locale, RequestInvalid, RequestModel, parse
from mailwright.sources.api.template_requests import (
    TemplatePreviewRequest,
    TemplateRequest,
    VersionNumber,
    check_template_id,
    parse_template,
)
from mailwright.web.api.caller import CallerDep
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.bodies import json_response, read_json
from mailwright.web.parts import ApiParts, Parts

router = APIRouter(prefix="/v1/templates", tags=["templates"])

_BODY_PROBLEMS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)


class ListQuery(RequestModel):
    limit: Annotated[int, Field(ge=1, le=200, description="How many at most.")] = 50
    after: Annotated[str, Field(max_length=100, description="`nextAfter` of the page before.")] = ""


class WhichQuery(RequestModel):
    locale: Annotated[Locale | None, Field(description="The newest version for its readers.")] = None
    version: Annotated[VersionNumber | None, Field(description="A version by its number.")] = None


class PreflightQuery(WhichQuery):
    bulk: Annotated[bool, Field(description="Bulk mail needs a link to leave and a postal address.")] = True


class DiffQuery(RequestModel):
    before: Annotated[VersionNumber | None, Field(description="Else the one before it, of the same locale.")] = None
    after: Annotated[VersionNumber | None, Field(description="Else the newest.")] = None


@router.get("", responses=describe_responses({HTTPStatus.OK: answers.TemplateListResponse}))
async def list_templates(parts: Parts, caller: CallerDep, query: Annotated[ListQuery, Query()]) -> Response:
    """In the order of their ids, each with its newest versions."""
    found = await parts.templates.list_page(caller.tenant_id, limit=query.limit, after=query.after)
    lines = [answers.template_line(newest) for newest in found]
    following = lines[-1]["templateId"] if len(lines) == query.limit else None
    return json_response({"templates": lines, "nextAfter": following})


@router.put(
    "/{templateId}",
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(TemplateRequest),
    responses=describe_responses({HTTPStatus.CREATED: answers.TemplateResponse}, *_BODY_PROBLEMS),
)
async def write(request: Request, templateId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803 - the name in the address
    """A new version. Old ones stay, and so do the mails that were asked for with them."""
    check_template_id(templateId)
    wanted = parse_template(await read_json(request))
    draft = wanted.draft()
    with _told(draft.format):
        stored = await parts.templates.write(caller.tenant_id, templateId, draft)
    return json_response(answers.template(stored), HTTPStatus.CREATED)


@router.get(
    "/{templateId}", responses=describe_responses({HTTPStatus.OK: answers.TemplateResponse}, HTTPStatus.NOT_FOUND)
)
async def show(templateId: str, parts: Parts, caller: CallerDep, query: Annotated[WhichQuery, Query()]) -> Response:  # noqa: N803
    """The newest version for everyone, or the one that is asked for."""
    return json_response(answers.template(await _which(parts, caller.tenant_id, templateId, query)))


@router.get(
    "/{templateId}/versions",
    responses=describe_responses({HTTPStatus.OK: answers.TemplateVersionListResponse}, HTTPStatus.NOT_FOUND),
)
async def versions(templateId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """All versions of all locales, the latest first."""
    found = await parts.templates.versions(caller.tenant_id, templateId)
    return json_response({"versions": [answers.version_line(stored) for stored in found]})


@router.get(
    "/{templateId}/diff",
    responses=describe_responses({HTTPStatus.OK: answers.TemplateDiffResponse}, HTTPStatus.NOT_FOUND),
)
async def diff(templateId: str, parts: Parts, caller: CallerDep, query: Annotated[DiffQuery, Query()]) -> Response:  # noqa: N803
    """What changed from one version to another, as its author wrote it."""
    before, after = await parts.templates.versions_to_compare(caller.tenant_id, templateId, query.before, query.after)
    return json_response({"difference": diff_versions(before, after)})


@router.post(
    "/{templateId}/preview",
    openapi_extra=describe_body(TemplatePreviewRequest),
    responses=describe_responses(
        {HTTPStatus.OK: answers.TemplatePreviewResponse}, HTTPStatus.NOT_FOUND, *_BODY_PROBLEMS
    ),
)
async def preview(request: Request, templateId: str, parts: Parts, caller: CallerDep) -> Response:  # noqa: N803
    """What a reader with these values would get. Declared samples stand in for what is not given."""
    wanted = parse(TemplatePreviewRequest, await read_json(request))
    stored = await _which(parts, caller.tenant_id, templateId, wanted)
    with _told("variables"):
        rendered = stored.render(wanted.variables or {}, parts.templates.standard)
    return json_response(answers.preview(stored, rendered))


@router.get(
    "/{templateId}/preflight",
    responses=describe_responses({HTTPStatus.OK: answers.TemplateCheckResponse}, HTTPStatus.NOT_FOUND),
)
async def check(
    templateId: str,  # noqa: N803
    parts: Parts,
    caller: CallerDep,
    query: Annotated[PreflightQuery, Query()],
) -> Response:
    """What readers and mailbox providers would mind. Nothing is fetched."""
    stored = await _which(parts, caller.tenant_id, templateId, query)
    facts = PresendContext(is_bulk=query.bulk, postal_address=parts.postal_address)
    found = run_presend_checks(subject=stored.subject, html=stored.html, text=stored.text, context=facts)
    return json_response(answers.preflight(found))


@contextmanager
def _told(field: str) -> Iterator[None]:
    """What is wrong with a template is wrong with the field that it came in."""
    try:
        yield
    except InvalidTemplate as error:
        raise RequestInvalid([FieldError(field, error.code, str(error))]) from error


async def _which(
    parts: ApiParts, tenant_id: int, template_id: str, wanted: WhichQuery | TemplatePreviewRequest
) -> StoredTemplate:
    if wanted.version is not None:
        return await parts.templates.version(tenant_id, template_id, wanted.version)
    return await parts.templates.latest(tenant_id, template_id, wanted.locale)
