"""The body of a SendGrid request: one mail, one personalization, every address once."""

from collections.abc import Iterable
from typing import Any

import orjson

from mailwright.domain.outgoing import OutgoingMessage
from mailwright.providers.sendgrid.mail import ParsedAttachment, ParsedMail, ParsedMailbox
from mailwright.providers.sendgrid.parse_mime import UnreadableMime

# Comes back with every event of the mail: a doubt is settled by it.
MESSAGE_ARGUMENT = "mailwright_message"

# SendGrid refuses most of these; it dates and signs mails itself, and X-SMTPAPI could even name more recipients.
# Our Message-ID it keeps, so that a mail that is sent twice is still seen as one.
_NOT_PASSED_ON = """
    bcc cc content-transfer-encoding content-type date dkim-signature from mime-version received reply-to return-path
    subject to x-sg-eid x-sg-id x-smtpapi
"""
NOT_PASSED_ON = frozenset(_NOT_PASSED_ON.split())


def body(message: OutgoingMessage, mail: ParsedMail, *, tracks_opens: bool) -> bytes:
    """Raises `Unreadable` for a mail that cannot be put into SendGrid's words."""
    request: dict[str, Any] = {
        "personalizations": [_personalization(message, mail)],
        "from": _box(mail.sender),
        "subject": mail.subject,
        "content": _content(mail),
        "headers": _headers(mail),
        # A rewritten link is no longer ours, and a second way to unsubscribe would not reach us.
        "tracking_settings": {
            "click_tracking": {"enable": False, "enable_text": False},
            "open_tracking": {"enable": tracks_opens},
            "subscription_tracking": {"enable": False},
            "ganalytics": {"enable": False},
        },
    }
    if len(mail.reply_to) == 1:
        request["reply_to"] = _box(mail.reply_to[0])
    elif mail.reply_to:
        request["reply_to_list"] = [_box(box) for box in mail.reply_to]
    if mail.attached:
        request["attachments"] = [_attachment(each) for each in mail.attached]
    try:
        return orjson.dumps(request)
    except orjson.JSONEncodeError as error:
        raise UnreadableMime("the mail contains halves of characters") from error


def _personalization(message: OutgoingMessage, mail: ParsedMail) -> dict[str, Any]:
    """Who gets it is the envelope's word; the headers tell only in which role."""
    waiting = {address.lower(): address for address in message.recipients}
    to, cc = _among(mail.to, waiting), _among(mail.cc, waiting)
    bcc = [{"email": address} for address in waiting.values()]
    if not to:
        # SendGrid insists on one. Of several in blind copy, none may be shown to the others.
        if not cc and len(bcc) != 1:
            raise UnreadableMime(
                "none of the recipients stands in the mail's To or Cc, and SendGrid cannot hide them all"
            )
        to.append((cc or bcc).pop(0))
    personalization: dict[str, Any] = {"to": to, "custom_args": {MESSAGE_ARGUMENT: message.outbox_id}}
    if cc:
        personalization["cc"] = cc
    if bcc:
        personalization["bcc"] = bcc
    return personalization


def _among(boxes: Iterable[ParsedMailbox], waiting: dict[str, str]) -> list[dict[str, str]]:
    """Takes the boxes that wait for the mail out of those who wait."""
    return [_box(box) for box in boxes if waiting.pop(box.address.lower(), None) is not None]


def _box(box: ParsedMailbox) -> dict[str, str]:
    return {"email": box.address, "name": box.name} if box.name else {"email": box.address}


def _content(mail: ParsedMail) -> list[dict[str, str]]:
    """The plain text first: SendGrid asks for it in this order, and takes no empty part."""
    content = []
    if mail.text:
        content.append({"type": "text/plain", "value": mail.text})
    if mail.html:
        content.append({"type": "text/html", "value": mail.html})
    if not content:
        raise UnreadableMime("the mail has neither text nor HTML")
    return content


def _headers(mail: ParsedMail) -> dict[str, str]:
    """Each name once, the first of several: an object has no place for a second."""
    headers: dict[str, tuple[str, str]] = {}
    for name, value in mail.headers:
        if (lowered := name.lower()) not in NOT_PASSED_ON:
            headers.setdefault(lowered, (name, value))
    return dict(headers.values())


def _attachment(attached: ParsedAttachment) -> dict[str, str]:
    attachment = {
        "content": attached.content,
        "type": attached.content_type,
        "filename": attached.filename or "attachment",
        "disposition": "attachment",
    }
    if attached.content_id is not None:
        attachment |= {"disposition": "inline", "content_id": attached.content_id}
    return attachment
