"""HTTP routes of sign-up forms."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.access.roles import Scope
from mailwright.app.wiring import Engine
from mailwright.audience.form_snippet import form_snippet, form_url
from mailwright.audience.forms import FormCounts, SignUpForm
from mailwright.schemas.forms import FormListResponse, FormRequest, FormResponse, form_response
from mailwright.sources.api.validation import parse
from mailwright.web.api.caller import CallerDep, actor_of
from mailwright.web.api.campaign_sender import RequireDefaultSender
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(prefix="/v1/forms", tags=["forms"], dependencies=[RequireDefaultSender])


@router.get("", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: FormListResponse}))
async def list_forms(engine: EngineDep, caller: CallerDep) -> Response:
    """List the sign-up forms by name, with how many people submitted and confirmed them."""
    found = await engine.forms.list_all(caller.tenant_id)
    return json_response(FormListResponse(forms=[_described(engine, *each) for each in found]))


@router.post(
    "",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.CREATED,
    openapi_extra=describe_body(FormRequest),
    responses=describe_responses({HTTPStatus.CREATED: FormResponse}, HTTPStatus.CONFLICT, *BODY_PROBLEMS),
)
async def create(request: Request, engine: EngineDep, caller: CallerDep) -> Response:
    """Create a sign-up form of a list. Everyone who uses it confirms by email."""
    wanted = parse(FormRequest, await read_json(request))
    made = await engine.forms.create(
        caller.tenant_id,
        name=wanted.name,
        list_key=wanted.list_key,
        content=wanted.content(),
        actor=actor_of(caller),
    )
    return json_response(_described(engine, made), HTTPStatus.CREATED)


@router.get(
    "/{formId}", scope=Scope.READ, responses=describe_responses({HTTPStatus.OK: FormResponse}, HTTPStatus.NOT_FOUND)
)
async def show(formId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Show a form with the HTML that embeds it."""
    found = await engine.forms.find(caller.tenant_id, formId)
    return json_response(_described(engine, found, await engine.forms.count(found)))


@router.put(
    "/{formId}",
    scope=Scope.MANAGE,
    openapi_extra=describe_body(FormRequest),
    responses=describe_responses({HTTPStatus.OK: FormResponse}, HTTPStatus.NOT_FOUND, *BODY_PROBLEMS),
)
async def edit(request: Request, formId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Replace a form. A change of its content makes a new version; stored consents keep the wording that people saw."""
    wanted = parse(FormRequest, await read_json(request))
    changed = await engine.forms.edit(
        caller.tenant_id,
        formId,
        name=wanted.name,
        list_key=wanted.list_key,
        content=wanted.content(),
        actor=actor_of(caller),
    )
    return json_response(_described(engine, changed, await engine.forms.count(changed)))


@router.delete(
    "/{formId}",
    scope=Scope.MANAGE,
    status_code=HTTPStatus.NO_CONTENT,
    responses=describe_responses({HTTPStatus.NO_CONTENT: None}, HTTPStatus.NOT_FOUND),
)
async def delete(formId: str, engine: EngineDep, caller: CallerDep) -> Response:  # noqa: N803
    """Delete a form. Embedded copies stop working. Stored consents are kept."""
    await engine.forms.delete(caller.tenant_id, formId, actor=actor_of(caller))
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _described(engine: Engine, form: SignUpForm, counts: FormCounts | None = None) -> FormResponse:
    return form_response(form, form_url(engine.public_url, form), form_snippet(engine.public_url, form), counts)
