"""Build the body of a SendGrid request: one message, one personalization, every address once."""

from collections.abc import Iterable
from typing import Any

import orjson

from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.sendgrid.parse_mime import UnreadableMime
from mailwright.providers.sendgrid.parsed_message import ParsedAttachment, ParsedMailbox, ParsedMessage

# SendGrid includes this value in every event of the message, so that an event can resolve a message in doubt.
MESSAGE_ARGUMENT = "mailwright_message"

# Headers that are not passed on: SendGrid rejects most of them, dates and signs messages itself, and X-SMTPAPI could
# add recipients. Our Message-ID is passed on, so that receivers recognize a message that was sent twice.
_NOT_PASSED_ON = """
    bcc cc content-transfer-encoding content-type date dkim-signature from mime-version received reply-to return-path
    subject to x-sg-eid x-sg-id x-smtpapi
"""
NOT_PASSED_ON = frozenset(_NOT_PASSED_ON.split())


def build_body(message: OutgoingMessage, parsed: ParsedMessage, *, tracks_opens: bool) -> bytes:
    """Build the body. Raise `UnreadableMime` if the message cannot be converted."""
    request: dict[str, Any] = {
        "personalizations": [_personalization(message, parsed)],
        "from": _box(parsed.sender),
        "subject": parsed.subject,
        "content": _content(parsed),
        "headers": _headers(parsed),
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
    try:
        return orjson.dumps(request)
    except orjson.JSONEncodeError as error:
        raise UnreadableMime("the message contains invalid Unicode (lone surrogates)") from error


def _personalization(message: OutgoingMessage, parsed: ParsedMessage) -> dict[str, Any]:
    """Assign the envelope recipients to To, Cc and Bcc. The headers decide only the role of each recipient."""
    waiting = {address.lower(): address for address in message.recipients}
    to, cc = _take_listed(parsed.to, waiting), _take_listed(parsed.cc, waiting)
    bcc = [{"email": address} for address in waiting.values()]
    if not to:
        # SendGrid requires a visible recipient, but several Bcc recipients must not see each other.
        if not cc and len(bcc) != 1:
            raise UnreadableMime("no recipient is in the To or Cc header, and SendGrid cannot hide all recipients")
        to.append((cc or bcc).pop(0))
    personalization: dict[str, Any] = {"to": to, "custom_args": {MESSAGE_ARGUMENT: message.outbox_id}}
    if cc:
        personalization["cc"] = cc
    if bcc:
        personalization["bcc"] = bcc
    return personalization


def _take_listed(boxes: Iterable[ParsedMailbox], waiting: dict[str, str]) -> list[dict[str, str]]:
    """Return the listed mailboxes that are envelope recipients, and remove them from `waiting`."""
    return [_box(box) for box in boxes if waiting.pop(box.address.lower(), None) is not None]


def _box(box: ParsedMailbox) -> dict[str, str]:
    return {"email": box.address, "name": box.name} if box.name else {"email": box.address}


def _content(parsed: ParsedMessage) -> list[dict[str, str]]:
    """Return the content, plain text first, as SendGrid requires, and without empty parts, which it rejects."""
    content = []
    if parsed.text:
        content.append({"type": "text/plain", "value": parsed.text})
    if parsed.html:
        content.append({"type": "text/html", "value": parsed.html})
    if not content:
        raise UnreadableMime("the message has neither text nor HTML")
    return content


def _headers(parsed: ParsedMessage) -> dict[str, str]:
    """Return the headers. If a header occurs several times, use the first, because JSON object keys are unique."""
    headers: dict[str, tuple[str, str]] = {}
    for name, value in parsed.headers:
        if (lowered := name.lower()) not in NOT_PASSED_ON:
            headers.setdefault(lowered, (name, value))
    return dict(headers.values())


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
