"""What receivers of webhooks in the format of SES request from SNS: certificates, and the confirmation."""

import hmac
from http import HTTPStatus
from xml.sax.saxutils import escape

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.domain.errors import NotFound
from mailwright.events.outbound.formats.ses import (
    SNS_PATH,
    SesFormat,
    certificate_name,
    certificate_pem,
    confirmation_token,
    topic_arn,
)
from mailwright.web.request_ids import request_id_of
from mailwright.web.state import EngineDep

router = APIRouter(prefix=SNS_PATH, include_in_schema=False)

_NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
_MAX_FORM_FIELDS = 10


@router.get("/{webhookId}/{fileName}")
async def load_certificate(webhookId: str, fileName: str, engine: EngineDep) -> Response:  # noqa: N803
    """Load a certificate. It has a new name when it is replaced, so receivers may keep it."""
    for secret in await _secrets(engine, webhookId):
        if hmac.compare_digest(certificate_name(secret).encode(), fileName.encode()):
            return Response(certificate_pem(secret), media_type="application/x-pem-file")
    raise NotFound


@router.get("/")
async def confirm(request: Request, engine: EngineDep) -> Response:
    """Respond to a request of the SubscribeURL."""
    return await _confirm(request, engine, dict(request.query_params))


@router.post("/")
async def confirm_with_sdk(request: Request, engine: EngineDep) -> Response:
    """Respond to the operation ConfirmSubscription of AWS' SDKs."""
    async with request.form(max_fields=_MAX_FORM_FIELDS, max_files=0) as form:
        return await _confirm(request, engine, {name: str(value) for name, value in form.items()})


async def _confirm(request: Request, engine: Engine, given: dict[str, str]) -> Response:
    """Check the token. Events are delivered with and without a confirmation, so nothing changes."""
    topic, token, action = (given.get(name, "") for name in ("TopicArn", "Token", "Action"))
    if action != "ConfirmSubscription":
        return _error(request, "InvalidAction", "Mailwright only supports the action ConfirmSubscription.")
    webhook_id = topic.removeprefix(topic_arn(""))
    try:
        secrets = await _secrets(engine, webhook_id)
    except NotFound:
        return _error(request, "InvalidParameter", "Invalid parameter: TopicArn")
    tokens = [confirmation_token(each, webhook_id) for each in secrets]
    if not any(hmac.compare_digest(each.encode(), token.encode()) for each in tokens):
        return _error(request, "InvalidParameter", "Invalid parameter: Token")
    result = f"<SubscriptionArn>{escape(topic)}:{webhook_id}</SubscriptionArn>"
    content = (
        f'<ConfirmSubscriptionResponse xmlns="{_NAMESPACE}">'
        f"<ConfirmSubscriptionResult>{result}</ConfirmSubscriptionResult>"
        f"<ResponseMetadata><RequestId>{escape(request_id_of(request))}</RequestId></ResponseMetadata>"
        "</ConfirmSubscriptionResponse>"
    )
    return Response(content, media_type="text/xml")


async def _secrets(engine: Engine, webhook_id: str) -> list[str]:
    found = await engine.webhook_endpoints.find(webhook_id, tenant_id=None)
    if found.format != SesFormat.name:
        raise NotFound
    return [engine.database.secret_box.decrypt(each) for each in found.keys(engine.clock.now())]


def _error(request: Request, code: str, message: str) -> Response:
    content = (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>Sender</Type><Code>{code}</Code>'
        f"<Message>{message}</Message></Error><RequestId>{escape(request_id_of(request))}</RequestId></ErrorResponse>"
    )
    return Response(content, HTTPStatus.BAD_REQUEST, media_type="text/xml")
