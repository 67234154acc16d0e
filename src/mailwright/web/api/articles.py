"""The route that sends an article. Administrators call it, so it is not an action."""

from http import HTTPStatus

from fastapi import Request
from starlette.responses import Response

from mailwright.actions.articles import ArticleSendRequest, ArticleSendResponse
from mailwright.outbox import tenants
from mailwright.schemas.base import combine
from mailwright.sources.api.validation import parse_strict
from mailwright.web.api.administrator import AdministratorDep
from mailwright.web.api.caller import Credential
from mailwright.web.api.openapi import BODY_PROBLEMS, describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_json
from mailwright.web.state import EngineDep

router = Routes(tags=["articles"])


@router.post(
    "/v1/articles/send",
    scope=Credential.ADMINISTRATOR,
    status_code=HTTPStatus.ACCEPTED,
    openapi_extra=describe_body(ArticleSendRequest),
    responses=describe_responses(
        {HTTPStatus.ACCEPTED: ArticleSendResponse, HTTPStatus.OK: ArticleSendResponse},
        HTTPStatus.CONFLICT,
        *BODY_PROBLEMS,
    ),
)
async def send(request: Request, engine: EngineDep, administrator: AdministratorDep) -> Response:
    """Start sending an article to its audience.

    The response is sent once the run is stored; a worker then enqueues the messages. If the batch was requested before,
    the response is 200 with the existing run, and nothing is sent twice.
    """
    wanted = parse_strict(ArticleSendRequest, await read_json(request))
    tenant = await tenants.find(engine.database, tenants.DEFAULT)
    run, is_replay = await engine.article_runs.start(
        administrator.actor, tenant.id, wanted.run_request(), overrides_rules=wanted.override_sender_rules
    )
    status = HTTPStatus.OK if is_replay else HTTPStatus.ACCEPTED
    return json_response(combine(ArticleSendResponse, run, is_replay=is_replay), status)
