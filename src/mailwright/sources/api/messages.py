"""Accept messages that callers submit through the API: a message is accepted once its row is committed."""

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace
from datetime import tzinfo
from typing import Any, NamedTuple

import orjson

from mailwright.access.api_keys import Caller
from mailwright.audience import lists
from mailwright.content.subject import MAX_CHARACTERS
from mailwright.domain.address import domain_of, split_mailbox
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.errors import IdempotencyConflict, NotPossibleNow
from mailwright.domain.ids import uuid7, uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import LIFETIME_FIELD
from mailwright.domain.message import (
    ALTERNATIVES,
    FREE_SUBJECT,
    OTHER_SENDERS,
    OWN_MESSAGE_ID,
    SENDER_HEADER,
    WARNINGS,
    Accepted,
    NewMessage,
    Source,
)
from mailwright.domain.schedule import has_zone, is_past
from mailwright.domain.sender_domains import AcceptWarning, SenderDomains
from mailwright.domain.sender_policy import UNRESTRICTED, SenderPolicy
from mailwright.domain.states import OnDoubt, Priority
from mailwright.ops.logs import logger
from mailwright.outbox import tenants
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.sources.api.named_lists import NO_LISTS, NamedLists, find_named_lists, without_unsubscribe
from mailwright.sources.api.requests import (
    BatchRequest,
    DropInRequest,
    ListNotFound,
    SendRequest,
    TemplateNotFound,
    parse_send,
)
from mailwright.sources.api.senders import require_domains, require_sender
from mailwright.sources.api.templates import NO_TEMPLATES, RequestedTemplate, RequestedTemplates, latest_templates
from mailwright.sources.api.validation import FieldError, RequestInvalid, parse
from mailwright.storage.database import Database

log = logger(__name__)

# A later time is nearly always a mistake in the year or the unit.
MAX_SCHEDULE_AHEAD: Instant = 366 * DAY

# Fields of a request that are copied into the payload, under the names that the pipeline reads.
_PAYLOAD_NAMES = {
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
    "tracking": "tracking",
    "lifetime_minutes": LIFETIME_FIELD,
}


@dataclass(frozen=True, slots=True)
class RejectedItem:
    """An item of a batch that was not accepted, and why. The other items are not affected."""

    code: str
    detail: str
    field: str | None


@dataclass(slots=True)  # Not declared frozen: one is created for each request, and that takes three times as long.
class RequestContext:
    """The caller and the ids that all messages of one request share."""

    caller: Caller
    request_id: str
    idempotency_key: str | None = None
    # The key only recognises a repeated request. The key or Message-ID of a raw email has priority.
    is_derived_key: bool = False
    # A signed-in person sends the messages, other than test emails of the dashboard.
    is_person: bool = False


# Returns why messages need an approval, and None if they may be accepted.
FindRefusal = Callable[[RequestContext, Sequence[NewMessage]], Awaitable[NotPossibleNow | None]]


async def never_refused(_context: RequestContext, _messages: Sequence[NewMessage]) -> NotPossibleNow | None:
    return None


@dataclass(frozen=True, slots=True)
class References:
    """The existing templates and lists that requests refer to."""

    templates: RequestedTemplates
    list_keys: AbstractSet[str]
    # Whether each recipient is in the segments of the templates' conditions.
    memberships: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)

    def members_of(self, template: RequestedTemplate, to_email: str) -> dict[str, bool]:
        """Return the membership of a recipient, or raise if a segment of the template does not exist."""
        known = self.memberships[to_email]
        if missing := [key for key in template.segments if key not in known]:
            message = f"has a condition for the segment {missing[0]}, which does not exist"
            raise RequestInvalid([FieldError("templateId", "UNKNOWN_SEGMENT", message)])
        return {key: known[key] for key in template.segments}


class _Item(NamedTuple):
    """The ids of one message, its request body as received, and when it was written."""

    outbox_id: str
    key: str | None
    body: Any
    written_at: Instant


class ApiMessages:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        acceptor: Acceptor,
        default_zone: str = "UTC",
        domains: SenderDomains | None = None,
        *,
        directory: SenderDirectory | None = None,
        find_refusal: FindRefusal = never_refused,
    ) -> None:
        """`domains` are the installation's own. A message from another domain is accepted with a warning.

        `directory` knows the sender domains of the tenants. Without it, tenants are not restricted. `find_refusal`
        enforces approvals.
        """
        self._database = database
        self._clock = clock
        self._acceptor = acceptor
        self._default_zone = default_zone  # The time zone of tenants that have not set one.
        self._domains = domains or SenderDomains()
        self._directory = directory
        self._find_refusal = find_refusal

    async def send(self, context: RequestContext, body: Any) -> Accepted:
        """Accept one message. When this returns, the message is stored durably."""
        key = f"send:{context.idempotency_key}" if context.idempotency_key else None
        try:
            message = await self._prepare(context, key, body)
        except RequestInvalid:
            [earlier] = await self._find_earlier(context.caller, [(key, body)])
            if earlier is None:
                raise
            return earlier
        if (refusal := await self._find_refusal(context, [message])) is not None:
            raise refusal
        [accepted] = await self._acceptor.accept([message])
        if accepted.is_conflict:
            raise IdempotencyConflict
        if accepted.is_erasing:
            raise ErasurePending
        return _with_warnings(accepted, message)

    async def send_batch(self, context: RequestContext, body: Any) -> list[Accepted | RejectedItem]:
        """Accept all valid items in one commit. Results have the order of the items."""
        items = parse(BatchRequest, body).messages
        messages = await self.refuse_unapproved(context, await self.prepare(context, items))
        accepted = iter(await self._acceptor.accept([one for one in messages if isinstance(one, NewMessage)]))
        keyed = [
            (_item_key(context, index), item)
            for index, (item, one) in enumerate(zip(items, messages, strict=True))
            if isinstance(one, RejectedItem)
        ]
        earlier = iter(await self._find_earlier(context.caller, keyed))
        return [
            next(earlier) or one if isinstance(one, RejectedItem) else _accepted_or_conflict(next(accepted), one)
            for one in messages
        ]

    async def refuse_unapproved(
        self, context: RequestContext, messages: Sequence[NewMessage | RejectedItem]
    ) -> list[NewMessage | RejectedItem]:
        """Reject the messages of a batch that need an approval. Raise if these are all valid messages."""
        valid = [one for one in messages if isinstance(one, NewMessage)]
        refusal = await self._find_refusal(context, valid)
        if refusal is None:
            return list(messages)
        if context.is_person or all(one.is_bulk for one in valid):
            raise refusal
        refused = RejectedItem(refusal.code, str(refusal), "listKey")
        return [refused if isinstance(one, NewMessage) and one.is_bulk else one for one in messages]

    async def prepare(
        self,
        context: RequestContext,
        items: Sequence[Any],
        written_at: Sequence[Instant] | None = None,
        *,
        model: type[SendRequest] = SendRequest,
    ) -> list[NewMessage | RejectedItem]:
        """Validate the requests of a batch, which have the fields of `model`, without storing anything.

        `written_at` has the times when waiting requests were written. A send time after that is not too late.
        """
        zone, policy = await self._zone(context.caller, items), await self._sender_policy()
        requests = [_parse_item(context.caller, item, zone, policy, model) for item in items]
        references = await self._references(
            context.caller, [request for request in requests if isinstance(request, SendRequest)]
        )
        now = self._clock.now()
        times = written_at or [now] * len(items)
        messages = [
            request
            if isinstance(request, RejectedItem)
            else _message_or_rejection(
                context, request, references, _Item(outbox_id, _item_key(context, index), body, time), now
            )
            for index, (outbox_id, request, body, time) in enumerate(
                zip(uuid7s(now, len(items)), requests, items, times, strict=True)
            )
        ]
        return [one if isinstance(one, RejectedItem) else self._with_warnings(one, policy) for one in messages]

    async def _prepare(self, context: RequestContext, key: str | None, body: Any) -> NewMessage:
        zone = await self._zone(context.caller, [body])
        policy = await self._sender_policy()
        request = _parse(context.caller, body, zone, policy)
        references = await self._references(context.caller, [request])
        now = self._clock.now()
        message = _message(context, request, references, _Item(uuid7(now), key, body, now), now)
        return self._with_warnings(message, policy)

    async def _find_earlier(self, caller: Caller, requests: Sequence[tuple[str | None, Any]]) -> list[Accepted | None]:
        """Return, for requests that are invalid now, the messages that were accepted for them earlier."""
        keys = [_dedupe_key(key) for key, _ in requests]
        digests = {key: digest_json(body) for key, (_, body) in zip(keys, requests, strict=True) if key}
        found = await self._acceptor.find_accepted(caller.tenant_id, digests)
        return [found.get(key) if key else None for key in keys]

    async def _sender_policy(self) -> SenderPolicy:
        return UNRESTRICTED if self._directory is None else await self._directory.current()

    def _with_warnings(self, message: NewMessage, policy: SenderPolicy) -> NewMessage:
        """Store the warnings of a message with it, and log them."""
        sender = message.payload.get("from")
        if sender is None:
            return message
        email = sender["email"] if isinstance(sender, Mapping) else split_mailbox(sender)[1]
        if policy.is_own(message.tenant_id, email):
            return message
        warnings = self._domains.warnings(domain_of(email))
        for each in warnings:
            log.warning("message_warning", outboxId=message.outbox_id, code=each.code, fromDomain=domain_of(email))
        stored = [{"code": each.code, "detail": each.detail} for each in warnings]
        return replace(message, payload={**message.payload, WARNINGS: stored}) if stored else message

    async def _zone(self, caller: Caller, bodies: Sequence[Any]) -> tzinfo | None:
        """Return the tenant's time zone if any time has no zone. Most requests need no query."""
        if not any(_has_local_time(body) for body in bodies):
            return None
        return await tenants.load_zone(self._database, caller.tenant_id, self._default_zone)

    async def _references(self, caller: Caller, requests: Sequence[SendRequest]) -> References:
        """Load the templates and lists that the requests name. If they name none, run no query."""
        templates = {request.template_id for request in requests if request.template_id is not None}
        list_keys = {key for request in requests for key in _named_lists(request).keys | {request.list_key} if key}
        if not templates and not list_keys:
            return References(NO_TEMPLATES, frozenset())
        recipients = {one.to.lower() for one in requests if one.template_id is not None and one.locale is None}
        tenant_id = caller.tenant_id
        async with self._database.read() as tx:
            found = await latest_templates(tx, tenant_id, templates, recipients) if templates else NO_TEMPLATES
            keys = await lists.existing_keys(tx, tenant_id, list_keys)
            if not (segments := found.segments):
                return References(found, keys)
            from mailwright.audience.segments import load_memberships  # noqa: PLC0415 - few requests need filters

            emails = {one.to.lower() for one in requests if one.template_id is not None}
            now = self._clock.now()
            return References(found, keys, await load_memberships(tx, tenant_id, segments, emails, now))


def _parse(
    caller: Caller, body: Any, zone: tzinfo | None, policy: SenderPolicy, model: type[SendRequest] = SendRequest
) -> SendRequest:
    request = parse_send(body, zone, model)
    sender = request.sender or policy.default_sender(caller.tenant_id)
    require_sender(caller, sender)
    require_domains(policy, caller.tenant_id, [split_mailbox(sender)[1]])
    if isinstance(request, DropInRequest) and request.sender_header is not None:
        require_sender(caller, request.sender_header, SENDER_HEADER)
        require_domains(policy, caller.tenant_id, [split_mailbox(request.sender_header)[1]], SENDER_HEADER)
    return request


def _parse_item(
    caller: Caller, item: Any, zone: tzinfo | None, policy: SenderPolicy, model: type[SendRequest]
) -> SendRequest | RejectedItem:
    try:
        return _parse(caller, item, zone, policy, model)
    except RequestInvalid as error:
        return _rejected_item(error)


def _item_key(context: RequestContext, index: int) -> str | None:
    """Return the deduplication key of an item. Its prefix separates it from the keys of single sends."""
    return f"batch:{index}:{context.idempotency_key}" if context.idempotency_key else None


def _dedupe_key(key: str | None) -> str | None:
    return f"api:{key}" if key else None


def _message_or_rejection(
    context: RequestContext, request: SendRequest, references: References, item: _Item, now: Instant
) -> NewMessage | RejectedItem:
    try:
        return _message(context, request, references, item, now)
    except RequestInvalid as error:
        return _rejected_item(error)


def _message(
    context: RequestContext, request: SendRequest, references: References, item: _Item, now: Instant
) -> NewMessage:
    if request.scheduled_at is not None:
        check_schedule(request.scheduled_at, now, written_at=item.written_at)
    template = None
    if request.template_id is not None:
        template = references.templates.find(request.template_id, request.to.lower(), request.locale)
        if template is None:
            raise TemplateNotFound
    if request.list_key is not None and request.list_key not in references.list_keys:
        raise ListNotFound(request.list_key)
    list_key = request.list_key or _named_lists(request).choose(references.list_keys)
    content = payload(request)
    if list_key is not None and request.headers:
        content["headers"] = without_unsubscribe(request.headers)
    if template is not None and template.segments:
        content["inSegments"] = references.members_of(template, request.to.lower())
    is_bulk = list_key is not None
    recipient = request.recipient
    return NewMessage(
        outbox_id=item.outbox_id,
        tenant_id=context.caller.tenant_id,
        source=Source.API,
        request_id=context.request_id,
        # The domain is normalised already; addresses are compared without regard to case.
        to_email=request.to.lower(),
        subject=request.subject or (template.subject if template else ""),
        payload=content,
        recipient_id=recipient.recipient_id if recipient else None,
        external_id=recipient.external_id if recipient else None,
        contact_name=recipient.name if recipient else None,
        dedupe_key=_dedupe_key(item.key),
        body_digest=digest_json(item.body) if item.key else None,
        template_key=template.key if template else None,
        on_doubt=OnDoubt.HOLD if is_bulk else OnDoubt.RESEND,
        priority=Priority.BULK if is_bulk else Priority.TRANSACTIONAL,
        is_bulk=is_bulk,
        list_key=list_key,
        scheduled_at=request.scheduled_at,
        expires_at=request.expires_at,
    )


def _named_lists(request: SendRequest) -> NamedLists:
    if request.list_key is not None or not request.headers:
        return NO_LISTS
    return find_named_lists(request.headers, request.tags)


def check_schedule(
    scheduled_at: Instant, now: Instant, field: str = "scheduledAt", *, written_at: Instant | None = None
) -> None:
    """Raise if a send time is too far ahead, or was past when the request was written."""
    if scheduled_at > now + MAX_SCHEDULE_AHEAD:
        raise RequestInvalid([FieldError(field, "TOO_FAR_AHEAD", "is more than a year ahead")])
    if is_past(scheduled_at, now if written_at is None else written_at):
        raise RequestInvalid([FieldError(field, "IN_THE_PAST", "is in the past; leave it out to send now")])


def payload(request: SendRequest) -> dict[str, Any]:
    """Return the content of the email under the names that the pipeline reads, without empty fields."""
    fields = request.__dict__  # Attribute access would take five times as long.
    content = {name: value for field, name in _PAYLOAD_NAMES.items() if (value := fields[field])}
    if request.recipient and request.recipient.name:
        content["toName"] = request.recipient.name
    if request.attachments:
        content["attachments"] = [
            attachment.model_dump(by_alias=True, exclude_none=True) for attachment in request.attachments
        ]
    if isinstance(request, DropInRequest):
        content.update(_drop_in_fields(request))
    return content


def _drop_in_fields(request: DropInRequest) -> Iterator[tuple[str, Any]]:
    if request.further_reply_to:
        yield "replyTo", [each for each in (request.reply_to, *request.further_reply_to) if each is not None]
    if request.message_id is not None:
        yield OWN_MESSAGE_ID, request.message_id
    if request.sender_header is not None:
        yield SENDER_HEADER, request.sender_header
        yield OTHER_SENDERS, [split_mailbox(request.sender_header)[1]]
    if request.alternatives:
        yield ALTERNATIVES, [each.model_dump(by_alias=True) for each in request.alternatives]
    if request.subject is not None and not 0 < len(request.subject.strip()) <= MAX_CHARACTERS:
        yield FREE_SUBJECT, True


def digest_json(body: Any) -> str:
    """Return a digest of a JSON body that does not depend on field order and white space."""
    return hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _has_local_time(body: Any) -> bool:
    if not isinstance(body, dict) or not ("scheduledAt" in body or "expiresAt" in body):
        return False
    times = (body.get(name) for name in ("scheduledAt", "expiresAt"))
    return any(isinstance(time, str) and not has_zone(time) for time in times)


def _rejected_item(error: RequestInvalid) -> RejectedItem:
    first = error.errors[0]
    return RejectedItem(error.code if error.code != RequestInvalid.code else first.code, first.message, first.field)


def _accepted_or_conflict(accepted: Accepted, message: NewMessage) -> Accepted | RejectedItem:
    if accepted.is_conflict:
        return RejectedItem(IdempotencyConflict.code, str(IdempotencyConflict()), None)
    if accepted.is_erasing:
        return RejectedItem(ErasurePending.code, str(ErasurePending()), "to")
    return _with_warnings(accepted, message)


def _with_warnings(accepted: Accepted, message: NewMessage) -> Accepted:
    found = tuple(AcceptWarning(**each) for each in message.payload.get(WARNINGS, ()))
    return replace(accepted, warnings=found) if found else accepted
