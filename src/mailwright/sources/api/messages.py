"""From a request to the outbox: what the API's callers ask for becomes messages, accepted by a committed row."""

import hashlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from mailwright.access.api_keys import Caller
from mailwright.audience import lists
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import IdempotencyConflict
from mailwright.domain.ids import uuid7, uuid7s
from mailwright.domain.message import Accepted, NewMessage, Source
from mailwright.domain.states import OnDoubt, Priority
from mailwright.outbox.accept import Acceptor
from mailwright.sources.api.requests import (
    BatchRequest,
    FieldError,
    ListNotFound,
    RequestInvalid,
    SendRequest,
    TemplateNotFound,
    parse,
    parse_send,
)
from mailwright.sources.api.templates import NO_TEMPLATES, Templates, latest_templates
from mailwright.storage.database import Database

# Later than this is nearly always a mistake in the year or the unit.
FURTHEST_AHEAD: Instant = 366 * DAY

# The pipeline's words for the fields that are taken over as they are.
_WORDS = {
    "to": "to",
    "sender": "from",
    "reply_to": "replyTo",
    "cc": "cc",
    "bcc": "bcc",
    "subject": "subject",
    "html": "html",
    "text": "text",
    "variables": "variables",
    "headers": "headers",
    "tags": "tags",
    "metadata": "metadata",
}


@dataclass(frozen=True, slots=True)
class Refused:
    """One item of a batch that was not accepted, and why; the others do not suffer."""

    code: str
    detail: str
    field: str | None


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who asks, under which names: the same for all the messages of one request."""

    caller: Caller
    request_id: str
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """Templates and lists that requests name and that exist."""

    templates: Templates
    list_keys: AbstractSet[str]


class _Item(NamedTuple):
    """One message of a request: the names it gets, and its body as it came."""

    outbox_id: str
    key: str | None
    body: Any


class ApiMessages:
    def __init__(self, database: Database, clock: Clock, acceptor: Acceptor) -> None:
        self._database = database
        self._clock = clock
        self._acceptor = acceptor

    async def send(self, asking: RequestContext, body: Any) -> Accepted:
        """Accepts one message. When this returns, the message is on disk."""
        request = parse_send(body)
        named = await self._named(asking.caller, [request])
        key = f"send:{asking.idempotency_key}" if asking.idempotency_key else None
        now = self._clock.now()
        message = _message(asking, request, named, _Item(uuid7(now), key, body), now)
        [accepted] = await self._acceptor.accept([message])
        if accepted.is_conflict:
            raise IdempotencyConflict
        return accepted

    async def send_batch(self, asking: RequestContext, body: Any) -> list[Accepted | Refused]:
        """Accepts all good items in one commit; the answers come in the order of the items."""
        items = parse(BatchRequest, body).messages
        parsed = [_parsed(item) for item in items]
        named = await self._named(asking.caller, [one for one in parsed if isinstance(one, SendRequest)])
        now = self._clock.now()
        messages = [
            one
            if isinstance(one, Refused)
            else _unless_refused(asking, one, named, _Item(outbox_id, _item_key(asking, index), body), now)
            for index, (outbox_id, one, body) in enumerate(zip(uuid7s(now, len(items)), parsed, items, strict=True))
        ]
        accepted = iter(await self._acceptor.accept([one for one in messages if isinstance(one, NewMessage)]))
        return [one if isinstance(one, Refused) else _unless_conflict(next(accepted)) for one in messages]

    async def _named(self, caller: Caller, requests: Sequence[SendRequest]) -> Named:
        """What the requests speak of; those that name nothing cost no look at the database."""
        templates = {request.template_id for request in requests if request.template_id is not None}
        list_keys = {request.list_key for request in requests if request.list_key is not None}
        if not templates and not list_keys:
            return Named(NO_TEMPLATES, frozenset())
        readers = {one.to.lower() for one in requests if one.template_id is not None and one.locale is None}
        async with self._database.read() as tx:
            return Named(
                await latest_templates(tx, caller.tenant_id, templates, readers) if templates else NO_TEMPLATES,
                await lists.existing_keys(tx, caller.tenant_id, list_keys),
            )


def _item_key(asking: RequestContext, index: int) -> str | None:
    """Apart from the keys of single sends: whatever those hold, none of them is an item's."""
    return f"batch:{index}:{asking.idempotency_key}" if asking.idempotency_key else None


def _unless_refused(
    asking: RequestContext, request: SendRequest, named: Named, item: _Item, now: Instant
) -> NewMessage | Refused:
    try:
        return _message(asking, request, named, item, now)
    except RequestInvalid as error:
        return _refused(error)


def _message(asking: RequestContext, request: SendRequest, named: Named, item: _Item, now: Instant) -> NewMessage:
    if request.scheduled_at is not None and request.scheduled_at > now + FURTHEST_AHEAD:
        raise RequestInvalid([FieldError("scheduledAt", "TOO_FAR_AHEAD", "is more than a year ahead")])
    template = None
    if request.template_id is not None:
        template = named.templates.find(request.template_id, request.to.lower(), request.locale)
        if template is None:
            raise TemplateNotFound
    if request.list_key is not None and request.list_key not in named.list_keys:
        raise ListNotFound(request.list_key)
    is_bulk = request.list_key is not None
    recipient = request.recipient
    return NewMessage(
        outbox_id=item.outbox_id,
        tenant_id=asking.caller.tenant_id,
        source=Source.API,
        request_id=asking.request_id,
        # The domain is already in its final form; comparing ignores the case of the rest as well.
        to_email=request.to.lower(),
        subject=request.subject or (template.subject if template else ""),
        payload=payload(request),
        recipient_id=recipient.recipient_id if recipient else None,
        external_id=recipient.external_id if recipient else None,
        contact_name=recipient.name if recipient else None,
        dedupe_key=f"api:{item.key}" if item.key else None,
        body_digest=_digest(item.body) if item.key else None,
        template_key=template.key if template else None,
        on_doubt=OnDoubt.HOLD if is_bulk else OnDoubt.RESEND,
        priority=Priority.BULK if is_bulk else Priority.TRANSACTIONAL,
        is_bulk=is_bulk,
        list_key=request.list_key,
        scheduled_at=request.scheduled_at,
        expires_at=request.expires_at,
    )


def payload(request: SendRequest) -> dict[str, Any]:
    """What the mail says, in the words that the pipeline reads. What was not given is not there."""
    given = request.__dict__  # looking each of them up as an attribute takes five times as long
    said = {word: value for field, word in _WORDS.items() if (value := given[field])}
    if request.recipient and request.recipient.name:
        said["toName"] = request.recipient.name
    if request.attachments:
        said["attachments"] = [
            attachment.model_dump(by_alias=True, exclude_none=True) for attachment in request.attachments
        ]
    return said


def _digest(body: Any) -> str:
    """The same for every spelling of the same JSON: order of fields and white space do not make another body."""
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _parsed(item: Any) -> SendRequest | Refused:
    try:
        return parse_send(item)
    except RequestInvalid as error:
        return _refused(error)


def _refused(error: RequestInvalid) -> Refused:
    first = error.errors[0]
    return Refused(error.code if error.code != RequestInvalid.code else first.code, first.message, first.field)


def _unless_conflict(accepted: Accepted) -> Accepted | Refused:
    if accepted.is_conflict:
        return Refused(IdempotencyConflict.code, str(IdempotencyConflict()), None)
    return accepted
