"""The HTTP route that receives the reports of report sources. It is no action, because a signature authenticates it."""

from http import HTTPStatus
from typing import Annotated, Literal

import orjson
from fastapi import Request
from pydantic import Field, model_validator
from starlette.responses import Response

from mailwright.domain.clock import Instant
from mailwright.domain.foreign_json import load_json
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.report_sources import ReportSource
from mailwright.ops.provider_kind import MAX_WEBHOOK_BYTES
from mailwright.providers.inbound.parsed_events import digest
from mailwright.providers.inbound.rejected_events import EventRejected
from mailwright.providers.inbound.sanitize import clean_metadata, link_without_query, parse_outbox_id
from mailwright.schemas.inbound_events import InboundEventsResponse
from mailwright.sources.api.fields import Line, Mailbox, RequestModel, RequestTime
from mailwright.sources.api.validation import FieldError, RequestInvalid, invalid, parse
from mailwright.web.api.caller import Credential
from mailwright.web.api.inbound import refuse_event
from mailwright.web.api.openapi import describe_body, describe_responses
from mailwright.web.api.routes import Routes
from mailwright.web.bodies import json_response, read_bytes
from mailwright.web.errors import InvalidJson
from mailwright.web.state import EngineDep

router = Routes(tags=["events"])

MAX_REPORTS = 1_000

_VERDICTS = {
    "complaint": ContactVerdict.COMPLAINT,
    "unsubscribe": ContactVerdict.UNSUBSCRIBE,
    "hard": ContactVerdict.HARD_BOUNCE,
    "soft": ContactVerdict.SOFT_BOUNCE,
}


class MessageReport(RequestModel):
    """What happened to one message. Name the message by `messageId` or `providerMessageId`."""

    type: Literal[
        "accepted", "delivered", "open", "click", "bounce", "complaint", "not_spam", "unsubscribe", "deferred"
    ]
    message_id: Annotated[Line | None, Field(description="The id of the message (`outboxId`), or its Message-ID.")] = (
        None
    )
    provider_message_id: Annotated[
        Line | None, Field(description="The provider's id of the message. The report source needs a provider.")
    ] = None
    id: Annotated[
        Line | None, Field(max_length=200, description="Your id of this report. A repeated id counts once.")
    ] = None
    recipient: Annotated[Mailbox | None, Field(description="Needed if the message has copies.")] = None
    at: Annotated[RequestTime | None, Field(description="When it happened. Defaults to now.")] = None
    bounce: Annotated[
        Literal["hard", "soft"] | None,
        Field(description="For `bounce`: `hard` suppresses the address, `soft` only after several."),
    ] = None
    code: Annotated[Line | None, Field(description="The status of the server, for example 5.1.1.")] = None
    reason: Annotated[Line | None, Field(description="What the server responded.")] = None
    url: Annotated[Line | None, Field(description="The link of a click.")] = None

    @model_validator(mode="after")
    def _check(self) -> "MessageReport":
        if self.message_id is None and self.provider_message_id is None:
            raise invalid("no_message", "needs messageId or providerMessageId")
        if self.message_id is not None and parse_outbox_id(self.message_id) is None:
            raise invalid("invalid_id", "has a messageId that is neither an outboxId nor a Message-ID of Mailwright")
        if (self.type == "bounce") is (self.bounce is None):
            raise invalid("bounce_kind", "needs bounce (hard or soft) if, and only if, its type is bounce")
        return self

    def report(self, source: ReportSource, now: Instant) -> Report:
        return Report(
            key=self.id or digest(self.model_dump(mode="json", exclude_none=True)),
            source=f"reports:{source.name}",
            type=EventType(self.type),
            at=now if self.at is None else min(self.at, now),
            recipient=self.recipient,
            outbox_id=parse_outbox_id(self.message_id),
            provider_message_id=self.provider_message_id,
            verdict=_VERDICTS.get(self.bounce or self.type, ContactVerdict.NOTHING),
            bounce_type=self.bounce,
            metadata=clean_metadata(status=self.code, reason=self.reason, url=link_without_query(self.url)),
            scope=source.scope,
        )


class ReportsRequest(RequestModel):
    reports: Annotated[list[MessageReport], Field(min_length=1, max_length=MAX_REPORTS)]


_PROBLEMS = (HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
_DESCRIBED = describe_responses({HTTPStatus.OK: InboundEventsResponse}, *_PROBLEMS, HTTPStatus.UNPROCESSABLE_ENTITY)


@router.post(
    "/v1/reports/{sourceName}",
    scope=Credential.SIGNATURE,
    openapi_extra=describe_body(ReportsRequest),
    responses={status: response for status, response in _DESCRIBED.items() if status != HTTPStatus.UNAUTHORIZED},
)
async def receive_reports(sourceName: str, request: Request, engine: EngineDep) -> Response:  # noqa: N803
    """Record reports about messages. The signature authenticates the request; a repeated report counts once."""
    body = await read_bytes(request, MAX_WEBHOOK_BYTES)
    try:
        source = await engine.report_sources.authenticate(sourceName, request.headers, body)
    except EventRejected as error:
        return refuse_event(request, error)
    try:
        wanted = parse(ReportsRequest, load_json(body))
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON: {error}") from error
    for place, each in enumerate(wanted.reports):
        if source.provider is None and each.message_id is None:
            text = "This report source has no provider. Use messageId, or create the source for one provider."
            raise RequestInvalid([FieldError(f"reports[{place}].providerMessageId", "NO_PROVIDER", text)])
    now = engine.clock.now()
    counts = await engine.reports.receive([each.report(source, now) for each in wanted.reports])
    return json_response(InboundEventsResponse.model_validate(counts))
