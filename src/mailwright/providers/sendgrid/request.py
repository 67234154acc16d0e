"""Build the body of a SendGrid request: one message, one personalization, every address once."""

from typing import Any

from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.dedupe_tag import DEDUPE_TAG
from mailwright.providers.parsed_mime.fields import (
    STRUCTURAL_HEADERS,
    assign_recipients,
    first_headers,
    require_content,
    to_json,
)
from mailwright.providers.parsed_mime.parsed_message import ParsedAttachment, ParsedMailbox, ParsedMessage

# SendGrid includes this value in every event of the message, so that an event can resolve a message in doubt.
MESSAGE_ARGUMENT = "mailwright_message"

# Headers that are not passed on: SendGrid rejects most of them, dates and signs messages itself, and X-SMTPAPI could
# add recipients. Our Message-ID is passed on, so that receivers recognize a message that was sent twice.
NOT_PASSED_ON = STRUCTURAL_HEADERS | {"x-sg-eid", "x-sg-id", "x-smtpapi"}


def build_body(message: OutgoingMessage, parsed: ParsedMessage, *, tracks_opens: bool) -> bytes:
    """Build the body. Raise `UnreadableMime` if the message cannot be converted."""
    request: dict[str, Any] = {
        "personalizations": [_personalization(message, parsed)],
        "from": _box(parsed.sender),
        "subject": parsed.subject,
        "content": _content(parsed),
        "headers": first_headers(parsed, NOT_PASSED_ON),
        # SendGrid must not rewrite our links or add its own unsubscribe link, which would not reach us.
        "tracking_settings": {
            "click_tracking": {"enable": False, "enable_text": False},
            "open_tracking": {"enable": tracks_opens},
            "subscription_tracking": {"enable": False},
            "ganalytics": {"enable": False},
        },
    }
    if len(parsed.reply_to) == 1:
        request["reply_to"] = _box(parsed.reply_to[0])
    elif parsed.reply_to:
        request["reply_to_list"] = [_box(box) for box in parsed.reply_to]
    if parsed.attachments:
        request["attachments"] = [_attachment(each) for each in parsed.attachments]
    return to_json(request)


def _personalization(message: OutgoingMessage, parsed: ParsedMessage) -> dict[str, Any]:
    recipients = assign_recipients(message, parsed)
    roles = {"to": recipients.to, "cc": recipients.cc, "bcc": recipients.bcc}
    listed: dict[str, Any] = {role: [_box(box) for box in boxes] for role, boxes in roles.items() if boxes}
    arguments = {MESSAGE_ARGUMENT: message.outbox_id}
    if message.dedupe_key:
        arguments[DEDUPE_TAG] = message.dedupe_key
    return {**listed, "custom_args": arguments}


def _box(box: ParsedMailbox) -> dict[str, str]:
    return {"email": box.address, "name": box.name} if box.name else {"email": box.address}


def _content(parsed: ParsedMessage) -> list[dict[str, str]]:
    """Return the content, plain text first, as SendGrid requires, and without empty parts, which it rejects."""
    require_content(parsed)
    content = []
    if parsed.text:
        content.append({"type": "text/plain", "value": parsed.text})
    if parsed.html:
        content.append({"type": "text/html", "value": parsed.html})
    return content


def _attachment(source: ParsedAttachment) -> dict[str, str]:
    attachment = {
        "content": source.content,
        "type": source.content_type,
        "filename": source.filename or "attachment",
        "disposition": "attachment",
    }
    if source.content_id is not None:
        attachment |= {"disposition": "inline", "content_id": source.content_id}
    return attachment
