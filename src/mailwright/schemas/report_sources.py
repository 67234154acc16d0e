"""Models of report sources, and of the reports that they send."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from mailwright.domain.clock import Instant
from mailwright.domain.report import ContactVerdict, Report
from mailwright.domain.states import EventType
from mailwright.events.report_sources import ReportSource
from mailwright.providers.inbound.parsed_events import digest
from mailwright.providers.inbound.sanitize import clean_metadata, link_without_query, parse_outbox_id
from mailwright.schemas.base import ResponseModel, Time
from mailwright.sources.api.fields import Line, Mailbox, RequestModel, RequestTime
from mailwright.sources.api.validation import invalid

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


class ReportSourceRequest(RequestModel):
    """`tenant`: it may report only about this tenant. `provider`: only about messages that this provider sent."""

    name: Annotated[Line, Field(description="postfix-1")]
    tenant: Line | None = None
    provider: Line | None = None


class ReportSourceResponse(ResponseModel):
    name: str
    url: str
    tenant: str | None
    provider: str | None
    created_at: Time
    created_by: str
    last_used_at: Time | None


class ReportSourceSecretResponse(ReportSourceResponse):
    """`secret` is shown only once."""

    secret: str


class ReportSourceListResponse(ResponseModel):
    report_sources: list[ReportSourceResponse]


def report_source_response(found: ReportSource, public_url: str) -> ReportSourceResponse:
    return ReportSourceResponse(
        name=found.name,
        url=f"{public_url}/v1/reports/{found.name}",
        tenant=found.tenant,
        provider=found.provider,
        created_at=found.created_at,
        created_by=found.created_by,
        last_used_at=found.last_used_at,
    )
