"""SendGrid's API: `POST /v3/mail/send`."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request
from pydantic import AfterValidator, AliasChoices, Field
from starlette.responses import Response

from mailwright.content.headers import Mailbox
from mailwright.content.mime import ALTERNATIVE_TYPE_PATTERN
from mailwright.domain.message import ALTERNATIVES, PREFERENCES_LINK_MARK, UNSUBSCRIBE_LINK_MARK
from mailwright.domain.tracking import TrackingMode
from mailwright.sources.api.emails import AddressedEmail
from mailwright.sources.api.fields import Address, Matching, Name
from mailwright.sources.api.requests import MAX_REPLY_TO
from mailwright.sources.api.validation import FieldError, RequestInvalid, invalid, parse
from mailwright.web.api.dropin.requests import (
    Base64,
    DictOf,
    ListOf,
    ServiceModel,
    Substitutions,
    UnixTime,
    Unsupported,
    answer_errors,
    bearer_key,
    format_box,
    renamed,
    reply_fields,
    sending_context,
    stated,
    without_empty,
)
from mailwright.web.bodies import json_response, read_json
from mailwright.web.errors import ErrorResponse
from mailwright.web.plain_route import PlainRoute
from mailwright.web.state import engine_of

router = APIRouter(prefix="/v3/mail", route_class=PlainRoute, include_in_schema=False)

MAX_PERSONALIZATIONS: Final = 1_000
# Tags in the content that SendGrid replaces by the recipient's links.
_LINK_TAG: Final = re.compile(r"<%asm_[^%>]*%>")
_LINK_MARKS: Final = {
    "<%asm_group_unsubscribe_url%>": UNSUBSCRIBE_LINK_MARK,
    "<%asm_group_unsubscribe_raw_url%>": UNSUBSCRIBE_LINK_MARK,
    "<%asm_preferences_url%>": PREFERENCES_LINK_MARK,
    "<%asm_preferences_raw_url%>": PREFERENCES_LINK_MARK,
}

_NAMES: Final = {
    "html": "content",
    "text": "content",
    "replyTo": "reply_to",
    "furtherReplyTo": "reply_to_list",
    "messageId": "headers.Message-ID",
    "senderHeader": "headers.Sender",
    ALTERNATIVES: "content",
    "scheduledAt": "send_at",
    "templateId": "template_id",
    "variables": "personalizations.dynamic_template_data",
    "tags": "categories",
    "listKey": "asm.group_id",
    "metadata": "custom_args",
    "recipient": "personalizations.to",
    "attachments.contentType": "type",
    "attachments.contentId": "content_id",
    **{name: f"personalizations.{name}" for name in ("to", "cc", "bcc")},
}
_STATUSES: Final = {HTTPStatus.UNPROCESSABLE_ENTITY: HTTPStatus.BAD_REQUEST}
_DETAILS: Final = {
    HTTPStatus.UNAUTHORIZED: "The provided authorization grant is invalid, expired, or revoked",
    HTTPStatus.FORBIDDEN: "access forbidden: the API key lacks the scope send",
}


class SendGridMailbox(ServiceModel):
    email: Address
    name: Name | None = None

    @property
    def box(self) -> Mailbox:
        return Mailbox(self.email, self.name or None)


ContentKind = Annotated[
    str,
    Matching(
        f"text/(plain|html)|{ALTERNATIVE_TYPE_PATTERN}",
        "must be text/plain, text/html, text/calendar or text/x-amp-html",
    ),
]


class SendGridContent(ServiceModel):
    type: ContentKind
    value: Annotated[str, Field(min_length=1)]


class SendGridAttachment(ServiceModel):
    content: Base64
    filename: str
    type: str | None = None
    disposition: Literal["attachment", "inline"] | None = None
    # SendGrid's SDK for Node.js does not rename its own `contentId`.
    content_id: Annotated[str | None, Field(validation_alias=AliasChoices("content_id", "contentId"))] = None


class SendGridSwitch(ServiceModel):
    enable: bool | None = None


class SendGridTracking(SendGridSwitch):
    enable_text: bool | None = None
    substitution_tag: Unsupported = None


def _refuse_enabled(setting: Any) -> None:
    if setting is not None and not (isinstance(setting, dict) and not setting.get("enable")):
        raise invalid("unsupported", "is not supported by Mailwright; remove it or set enable to false")


DisabledSetting = Annotated[Any, AfterValidator(_refuse_enabled)]


class SendGridTrackingSettings(ServiceModel):
    click_tracking: SendGridTracking | None = None
    open_tracking: SendGridTracking | None = None
    subscription_tracking: DisabledSetting = None
    ganalytics: DisabledSetting = None


class SendGridEmailSettings(ServiceModel):
    sandbox_mode: SendGridSwitch | None = None
    bypass_list_management: DisabledSetting = None
    bypass_spam_management: DisabledSetting = None
    bypass_bounce_management: DisabledSetting = None
    bypass_unsubscribe_management: DisabledSetting = None
    footer: DisabledSetting = None
    spam_check: DisabledSetting = None


class SendGridGroup(ServiceModel):
    """An unsubscribe group: the list of Mailwright whose key is the number of the group."""

    group_id: int
    groups_to_display: ListOf[int]  # Mailwright's preferences page shows the tenant's lists.


class SendGridPersonalization(ServiceModel):
    to: Annotated[list[SendGridMailbox], Field(min_length=1, max_length=1_000)]
    cc: Annotated[ListOf[SendGridMailbox], Field(max_length=1_000)]
    bcc: Annotated[ListOf[SendGridMailbox], Field(max_length=1_000)]
    sender: Annotated[SendGridMailbox | None, Field(alias="from")] = None
    subject: str | None = None
    headers: DictOf[str]
    substitutions: Annotated[DictOf[str], Field(max_length=10_000)]
    dynamic_template_data: dict[str, Any] | None = None
    custom_args: DictOf[Any]
    send_at: UnixTime | None = None


class SendGridEmail(ServiceModel):
    personalizations: Annotated[list[SendGridPersonalization], Field(min_length=1, max_length=MAX_PERSONALIZATIONS)]
    sender: Annotated[SendGridMailbox, Field(alias="from")]
    reply_to: SendGridMailbox | None = None
    reply_to_list: Annotated[ListOf[SendGridMailbox], Field(max_length=MAX_REPLY_TO)]
    subject: str | None = None
    content: ListOf[SendGridContent]
    attachments: ListOf[SendGridAttachment]
    template_id: str | None = None
    headers: DictOf[str]
    categories: list[str] | str | None = None
    custom_args: DictOf[Any]
    send_at: UnixTime | None = None
    mail_settings: SendGridEmailSettings | None = None
    tracking_settings: SendGridTrackingSettings | None = None
    batch_id: Unsupported = None
    asm: SendGridGroup | None = None
    ip_pool_name: Unsupported = None
    sections: Unsupported = None

    @property
    def is_sandboxed(self) -> bool:
        """Whether the request is only checked."""
        sandbox = self.mail_settings and self.mail_settings.sandbox_mode
        return bool(sandbox and sandbox.enable)

    @property
    def tracking(self) -> TrackingMode | None:
        """`off` if the request switches tracking off; otherwise the settings of the tenant decide."""
        settings = self.tracking_settings
        switches = (settings.click_tracking, settings.open_tracking) if settings else ()
        return TrackingMode.OFF if any(each and each.enable is False for each in switches) else None


def respond(error: ErrorResponse) -> Response:
    status = _STATUSES.get(error.status, error.status)
    detail = _DETAILS.get(status, error.detail)
    problems = renamed(error.errors, _NAMES) or [FieldError("", error.code, detail)]
    errors = [
        {
            "message": stated(each.field, each.message) if each.field else each.message,
            "field": each.field.replace("[", ".").replace("]", "") or None,
            "help": None,
        }
        for each in problems
    ]
    return json_response({"errors": errors}, status)


@router.post("/send")
@answer_errors(respond)
async def send(request: Request) -> Response:
    """Accept an email for each personalization, all or none."""
    context = await sending_context(request, bearer_key(request))
    wanted = parse(SendGridEmail, await read_json(request))
    emails, service = _emails(wanted), engine_of(request).api_emails
    if wanted.is_sandboxed:
        await service.check(context, emails)
        return Response(status_code=HTTPStatus.OK)
    accepted = await service.send(context, emails, share_id=True)
    return Response(status_code=HTTPStatus.ACCEPTED, headers={"X-Message-Id": accepted[0].outbox_id})


def _emails(wanted: SendGridEmail) -> Iterator[AddressedEmail]:
    shared, substitutions = _shared_fields(wanted), Substitutions()
    for number, person in enumerate(wanted.personalizations):
        sender = person.sender or wanted.sender
        own = {
            **shared,
            "from": format_box(sender.box),
            "subject": person.subject or wanted.subject,
            "headers": {**wanted.headers, **person.headers},
            "metadata": {**wanted.custom_args, **person.custom_args},
            "scheduledAt": person.send_at or wanted.send_at,
            "variables": person.dynamic_template_data,
        }
        field = f"personalizations[{number}].substitutions"
        for name in ("subject", "html", "text"):
            own[name] = substitutions.fill(own.get(name), person.substitutions, field)
        own[ALTERNATIVES] = [
            {**each, "content": substitutions.fill(each["content"], person.substitutions, field)}
            for each in shared[ALTERNATIVES]
        ]
        yield AddressedEmail(
            without_empty(own), *[tuple(each.box for each in boxes) for boxes in (person.to, person.cc, person.bcc)]
        )


def _shared_fields(wanted: SendGridEmail) -> dict[str, Any]:
    if wanted.reply_to is not None and wanted.reply_to_list:
        raise RequestInvalid([FieldError("reply_to_list", "TWICE", "cannot be combined with reply_to")])
    reply_to = [wanted.reply_to] if wanted.reply_to is not None else wanted.reply_to_list
    categories = [wanted.categories] if isinstance(wanted.categories, str) else wanted.categories or ()
    return {
        **_contents(wanted),
        **reply_fields([format_box(each.box) for each in reply_to]),
        "attachments": [_attachment(each) for each in wanted.attachments],
        "tags": [each for each in categories if each],
        "templateId": wanted.template_id,
        "tracking": wanted.tracking,
        "listKey": None if wanted.asm is None else str(wanted.asm.group_id),
    }


def _contents(wanted: SendGridEmail) -> Mapping[str, Any]:
    found: dict[str, str] = {}
    for number, each in enumerate(wanted.content):
        name = each.type.partition(";")[0]
        if name in (one.partition(";")[0] for one in found):
            raise RequestInvalid([FieldError(f"content[{number}].type", "TWICE", f"{name} occurs twice")])
        found[each.type] = _LINK_TAG.sub(partial(_link_mark, wanted, f"content[{number}].value"), each.value)
    text, html = found.pop("text/plain", None), found.pop("text/html", None)
    others = [{"contentType": kind, "content": content} for kind, content in found.items()]
    return {"text": text, "html": html, ALTERNATIVES: others}


def _link_mark(wanted: SendGridEmail, field: str, found: re.Match[str]) -> str:
    """Return the mark that the worker replaces by the recipient's link."""
    tag, problem = found[0], None
    if tag not in _LINK_MARKS:
        problem = f"contains {tag}, which Mailwright does not support; use one of {', '.join(_LINK_MARKS)}"
    elif wanted.asm is None:
        problem = f"contains {tag}, which needs asm.group_id"
    elif any(len(person.to) > 1 or person.cc or person.bcc for person in wanted.personalizations):
        problem = f"contains {tag}, so each personalization must have one recipient"
    if problem is not None:
        raise RequestInvalid([FieldError(field, "UNSUPPORTED", problem)])
    return _LINK_MARKS[tag]


def _attachment(attachment: SendGridAttachment) -> dict[str, Any]:
    return without_empty(
        {
            "filename": attachment.filename,
            "content": attachment.content,
            "contentType": attachment.type,
            "contentId": attachment.content_id if attachment.disposition == "inline" else None,
        }
    )
