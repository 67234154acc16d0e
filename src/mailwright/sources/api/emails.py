"""Accept emails with several recipients in To, Cc and Bcc, as the APIs of other email services describe them.

An email to one recipient is accepted like a request to `/v1/email/send`. An email to several recipients is written once
and accepted like a raw email: each recipient gets a separate message, and all messages share the content.
"""

import hashlib
from binascii import a2b_base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from mailwright.content.headers import Mailbox, message_id, own_message_id
from mailwright.content.mime import EmailAlternative, EmailAttachment, EmailParts, build_email
from mailwright.domain import address
from mailwright.domain.clock import Clock, Instant, isoformat
from mailwright.domain.errors import IdempotencyConflict
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import (
    ALTERNATIVES,
    EMAIL_ID,
    ENVELOPE_FROM,
    OTHER_SENDERS,
    OWN_MESSAGE_ID,
    RAW_BYTES,
    SENDER_HEADER,
    WARNINGS,
    Accepted,
    NewMessage,
    RawContent,
)
from mailwright.domain.sender_domains import AcceptWarning, FindWarnings
from mailwright.outbox.accept import MAX_COMMIT_BYTES, MAX_COMMIT_MESSAGES, Acceptor
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.sources.api.messages import (
    ApiMessages,
    FindRefusal,
    RejectedItem,
    RequestContext,
    digest_json,
    never_refused,
)
from mailwright.sources.api.requests import DropInRequest
from mailwright.sources.api.senders import SenderDomainNotVerified, SenderNotAllowed
from mailwright.sources.api.validation import FieldError, RequestInvalid

# Fields of a payload that a raw message keeps for the dashboard, the API and the worker.
_KEPT: Final = ("tags", "metadata", "headers", OTHER_SENDERS)
# Headers that are fields of the request, because they are addresses or must be unique.
_HEADER_FIELDS: Final = {"message-id": OWN_MESSAGE_ID, "sender": SENDER_HEADER}
_ONE_RECIPIENT: Final = "must be one address if the email has a template"


@dataclass(frozen=True, slots=True)
class AddressedEmail:
    """One email.

    `fields` are the fields of a `DropInRequest` without its recipients; they are not validated yet. A Message-ID and a
    Sender among the `headers` are used for the email. A `delay` in milliseconds replaces a send time, because a
    repeated request has the same delay but not the same time.
    """

    fields: dict[str, Any]
    to: tuple[Mailbox, ...]
    cc: tuple[Mailbox, ...] = ()
    bcc: tuple[Mailbox, ...] = ()
    delay: Instant | None = field(default=None, kw_only=True)

    @property
    def recipients(self) -> dict[str, Mailbox]:
        """All recipients by normalized address, each once."""
        found: dict[str, Mailbox] = {}
        for box in (*self.to, *self.cc, *self.bcc):
            found.setdefault(address.normal(box.address), box)
        return found

    @property
    def has_template(self) -> bool:
        return "templateId" in self.fields

    @property
    def is_shared(self) -> bool:
        """Whether the email is written once for all recipients. Only the worker can fill a template."""
        return not self.has_template and (len(self.recipients) > 1 or not self.to)

    @property
    def size_bytes(self) -> int:
        """The approximate size of the content."""
        attached = sum(len(each.get("content") or "") for each in self.fields.get("attachments") or ())
        others = sum(len(each["content"]) for each in self.fields.get(ALTERNATIVES) or ())
        return attached + others + sum(len(self.fields.get(name) or "") for name in ("html", "text"))

    def to_request(self, now: Instant) -> dict[str, Any]:
        """Return a `DropInRequest` for the first recipient, with copies if needed.

        Only the worker can fill a template, so all recipients of an email with a template share one message.
        """
        first = next(iter(self.recipients.values()))
        named = {"recipient": {"name": first.name}} if first.name else {}
        copies = {"cc": [box.address for box in self.cc], "bcc": [box.address for box in self.bcc]}
        later = {"scheduledAt": isoformat(now + self.delay)} if self.delay is not None else {}
        fields = {**self.fields, "to": first.address, **named, **(copies if self.has_template else {})}
        return fields | later | self._header_fields

    @property
    def own_message_id(self) -> str | None:
        """The Message-ID that the application chose, which must already be validated."""
        given = self._header_fields.get(OWN_MESSAGE_ID)
        return None if given is None else own_message_id(given)

    @property
    def _header_fields(self) -> dict[str, Any]:
        """The headers that are fields of a request, by field, and the other `headers`."""
        others: dict[str, str] = {}
        found: dict[str, Any] = {}
        for name, value in (self.fields.get("headers") or {}).items():
            field = _HEADER_FIELDS.get(name.lower())
            if field is None or field in found:  # A second one is invalid.
                others[name] = value
            else:
                found[field] = value
        return found | {"headers": others} if found else {}

    def digest(self) -> str:
        fields = self.fields if self.delay is None else {**self.fields, "delay": self.delay}
        return digest_json([fields, *[[[*box] for box in boxes] for boxes in (self.to, self.cc, self.bcc)]])


@dataclass(frozen=True, slots=True)
class AcceptedEmail:
    """The messages of one email, one for each recipient, and the value of its Message-ID header."""

    messages: tuple[Accepted, ...]
    message_id: str

    @property
    def outbox_id(self) -> str:
        """The id of the message to the first recipient."""
        return self.messages[0].outbox_id


@dataclass(frozen=True, slots=True)
class _Prepared:
    """An email that is valid, with its messages, which are not stored yet."""

    email: AddressedEmail
    messages: tuple[NewMessage, ...]


class ApiEmails:
    def __init__(
        self,
        api_messages: ApiMessages,
        acceptor: Acceptor,
        clock: Clock,
        find_warnings: FindWarnings,
        find_refusal: FindRefusal = never_refused,
    ) -> None:
        """`find_warnings` returns the warnings to store with every email of a tenant to several recipients.

        `find_refusal` enforces approvals.
        """
        self._api_messages = api_messages
        self._acceptor = acceptor
        self._clock = clock
        self._find_warnings = find_warnings
        self._find_refusal = find_refusal

    async def send(
        self, context: RequestContext, emails: Iterable[AddressedEmail], *, share_id: bool = False
    ) -> list[AcceptedEmail]:
        """Accept all emails in one commit, or raise and store nothing.

        With `share_id`, the application gets the ID of the first email for all of them.
        """
        wanted = _bounded(emails)
        digest = digest_json([each.digest() for each in wanted])
        try:
            prepared = [_require_valid(each) for each in await self._prepare(context, wanted)]
        except RequestInvalid:
            earlier = await self._find_earlier(context, {index: (each, digest) for index, each in enumerate(wanted)})
            if earlier is None:
                raise
            return earlier
        first_id = prepared[0].messages[0].outbox_id
        messages = list(_keyed(context, prepared, digest, first_id, first_id if share_id else None))
        if (refusal := await self._find_refusal(context, messages)) is not None:
            raise refusal
        accepted = await self._accept(prepared, messages)
        for each in accepted:
            if isinstance(each, RejectedItem):
                raise ErasurePending if each.code == ErasurePending.code else IdempotencyConflict
        return [each for each in accepted if isinstance(each, AcceptedEmail)]

    async def send_each(
        self, context: RequestContext, emails: Sequence[AddressedEmail | RejectedItem]
    ) -> list[AcceptedEmail | RejectedItem]:
        """Accept all valid emails in one commit. Results have the order of the emails."""
        found = iter(
            await self._prepare(context, _bounded(each for each in emails if isinstance(each, AddressedEmail)))
        )
        results = [each if isinstance(each, RejectedItem) else next(found) for each in emails]
        if (refusal := await self._find_refusal(context, list(_keyed(context, results)))) is not None:
            refused = RejectedItem(refusal.code, str(refusal), None)
            results = [refused if _needs_approval(context, each) else each for each in results]
        prepared = [each for each in results if isinstance(each, _Prepared)]
        accepted = iter(await self._accept(prepared, list(_keyed(context, results))))
        answers = [each if isinstance(each, RejectedItem) else next(accepted) for each in results]
        for index, email in enumerate(emails):
            if isinstance(answers[index], RejectedItem) and isinstance(email, AddressedEmail):
                earlier = await self._find_earlier(context, {index: (email, email.digest())})
                answers[index] = earlier[0] if earlier else answers[index]
        return answers

    async def check(self, context: RequestContext, emails: Iterable[AddressedEmail]) -> None:
        """Raise if `send` would refuse an email. Store nothing."""
        for each in await self._prepare(context, _bounded(emails)):
            _require_valid(each)

    async def _prepare(
        self, context: RequestContext, emails: Sequence[AddressedEmail]
    ) -> list[_Prepared | RejectedItem]:
        now = self._clock.now()
        firsts = await self._api_messages.prepare(
            context, [email.to_request(now) for email in emails], model=DropInRequest
        )
        return [
            first if isinstance(first, RejectedItem) else self._prepared(email, first, now)
            for email, first in zip(emails, firsts, strict=True)
        ]

    def _prepared(self, email: AddressedEmail, first: NewMessage, now: Instant) -> _Prepared | RejectedItem:
        if email.has_template and len(email.to) != 1:
            return RejectedItem("INVALID", _ONE_RECIPIENT, "to")
        if not email.is_shared:
            return _Prepared(email, (first,))
        return _Prepared(email, tuple(_messages_to_all(email, first, now, self._find_warnings(first.tenant_id))))

    async def _find_earlier(
        self, context: RequestContext, emails: Mapping[int, tuple[AddressedEmail, str]]
    ) -> list[AcceptedEmail] | None:
        """Return the messages of emails that are invalid now but were accepted before; None if not all of them were.

        `emails` are the emails with their digests, by their position in the request.
        """
        key = _hashed(context.idempotency_key)
        if key is None:
            return None
        wanted = [
            [_dedupe_key(key, index, place) for place in range(len(email.recipients) if email.is_shared else 1)]
            for index, (email, _) in emails.items()
        ]
        digests = {each: digest for keys, (_, digest) in zip(wanted, emails.values(), strict=True) for each in keys}
        found = await self._acceptor.find_accepted(context.caller.tenant_id, digests)
        if found.keys() != digests.keys():
            return None
        return [
            _accepted_email(email, [found[each] for each in keys])
            for keys, (email, _) in zip(wanted, emails.values(), strict=True)
        ]

    async def _accept(
        self, prepared: Sequence[_Prepared], messages: Sequence[NewMessage]
    ) -> list[AcceptedEmail | RejectedItem]:
        accepted = iter(await self._acceptor.accept(messages))
        return [_accepted_or_conflict(each.email, [next(accepted) for _ in each.messages]) for each in prepared]


_ERRORS: Final[Mapping[str, type[RequestInvalid]]] = {
    each.code: each for each in (SenderNotAllowed, SenderDomainNotVerified)
}


def _bounded(emails: Iterable[AddressedEmail]) -> list[AddressedEmail]:
    """Collect the emails, which may be generated, and raise as soon as one commit cannot store them."""
    found, messages, size = [], 0, 0
    for email in emails:
        found.append(email)
        messages += len(email.recipients)
        size += email.size_bytes
        if messages > MAX_COMMIT_MESSAGES:
            reason = f"has more than {MAX_COMMIT_MESSAGES:,} recipients in one request"
            raise RequestInvalid([FieldError("to", "TOO_MANY", reason)])
        if size > MAX_COMMIT_BYTES:
            reason = f"the emails of one request are larger than {MAX_COMMIT_BYTES // 1024**2} MB together"
            raise RequestInvalid([FieldError("attachments", "TOO_LARGE", reason)])
    return found


def _needs_approval(context: RequestContext, result: _Prepared | RejectedItem) -> bool:
    return isinstance(result, _Prepared) and (context.is_person or result.messages[0].is_bulk)


def _require_valid(result: _Prepared | RejectedItem) -> _Prepared:
    if isinstance(result, RejectedItem):
        error = _ERRORS.get(result.code, RequestInvalid)
        raise error([FieldError(result.field or "body", result.code, result.detail)])
    return result


def _keyed(
    context: RequestContext,
    items: Sequence[_Prepared | RejectedItem],
    digest: str | None = None,
    submission_id: str | None = None,
    email_id: str | None = None,
) -> Iterable[NewMessage]:
    """Return all messages with their deduplication keys and the ID that the application gets for their email.

    Without a `submission_id`, each email is a submission; without an `email_id`, each one has its own ID.

    A key contains the email's position in the request, so it does not change when another email of the request becomes
    valid.
    """
    key = _hashed(context.idempotency_key)
    for index, each in enumerate(items):
        if isinstance(each, RejectedItem):
            continue
        body_digest = (digest or each.email.digest()) if key else None
        known_id = email_id or each.messages[0].outbox_id
        for place, message in enumerate(each.messages):
            yield replace(
                message,
                payload=with_email_id(message.payload, message.outbox_id, known_id),
                dedupe_key=_dedupe_key(key, index, place) if key else None,
                body_digest=body_digest,
                submission_id=submission_id or each.messages[0].outbox_id,
            )


def with_email_id(payload: Mapping[str, Any], outbox_id: str, email_id: str) -> Mapping[str, Any]:
    """Add the ID that the application gets for the email, unless it is the ID of the message itself."""
    return payload if outbox_id == email_id else {**payload, EMAIL_ID: email_id}


def _hashed(idempotency_key: str | None) -> str | None:
    return hashlib.sha256(idempotency_key.encode()).hexdigest()[:40] if idempotency_key else None


def _dedupe_key(key: str, index: int, place: int) -> str:
    return f"api:emails:{key}:{index}:{place}"


def _accepted_or_conflict(email: AddressedEmail, accepted: Sequence[Accepted]) -> AcceptedEmail | RejectedItem:
    if any(one.is_conflict for one in accepted):
        return RejectedItem(IdempotencyConflict.code, str(IdempotencyConflict()), None)
    # An email to several recipients is sent to the others.
    stored = [one for one in accepted if not one.is_erasing]
    if not stored:
        return RejectedItem(ErasurePending.code, str(ErasurePending()), "to")
    return _accepted_email(email, stored)


def _accepted_email(email: AddressedEmail, accepted: Sequence[Accepted]) -> AcceptedEmail:
    name, sender_address = address.split_mailbox(email.fields["from"])
    sender = Mailbox(address.deliverable(sender_address), name)
    return AcceptedEmail(tuple(accepted), _message_id(email, accepted[0].outbox_id, sender))


def _messages_to_all(
    email: AddressedEmail, first: NewMessage, now: Instant, warnings: Sequence[AcceptWarning]
) -> Iterable[NewMessage]:
    recipients = email.recipients
    outbox_ids = uuid7s(now, len(recipients))
    sender = _sender(first)
    identity = _message_id(email, outbox_ids[0], sender)
    content = _write(email, first, identity, now)
    raw = RawContent.of(content, now)
    payload = {
        "from": first.payload["from"],
        ENVELOPE_FROM: sender.address,
        RAW_BYTES: len(content),
        **{name: first.payload[name] for name in _KEPT if name in first.payload},
        OWN_MESSAGE_ID: identity,
    }
    found = [*first.payload.get(WARNINGS, ()), *[{"code": each.code, "detail": each.detail} for each in warnings]]
    if found:
        payload[WARNINGS] = found
    for outbox_id, (to_email, box) in zip(outbox_ids, recipients.items(), strict=True):
        own = {"to": box.address, **payload}
        yield replace(first, outbox_id=outbox_id, to_email=to_email, payload=own, contact_name=box.name, raw=raw)


def _write(email: AddressedEmail, first: NewMessage, identity: str, now: Instant) -> bytes:
    payload = first.payload
    parts = EmailParts(
        message_id=identity,
        date=now,
        sender=_sender(first),
        to=email.to[0] if email.to else None,
        further_to=email.to[1:],
        subject=first.subject,
        html=payload.get("html"),
        text=payload.get("text"),
        reply_to=_reply_to(payload),
        cc=email.cc,
        headers=payload.get("headers", {}),
        attachments=tuple(_attachment(each) for each in payload.get("attachments", ())),
        alternatives=tuple(
            EmailAlternative(each["contentType"], each["content"]) for each in payload.get(ALTERNATIVES, ())
        ),
        sender_header=_mailbox(payload[SENDER_HEADER]) if SENDER_HEADER in payload else None,
    )
    return build_email(parts)


def _attachment(value: Mapping[str, Any]) -> EmailAttachment:
    content = a2b_base64(value["content"])
    return EmailAttachment(value["filename"], value["contentType"], content, value.get("contentId"))


def _sender(message: NewMessage) -> Mailbox:
    return _mailbox(message.payload["from"])


def _mailbox(text: str) -> Mailbox:
    name, email = address.split_mailbox(text)
    return Mailbox(email, name)


def _reply_to(payload: Mapping[str, Any]) -> tuple[Mailbox, ...]:
    given = payload.get("replyTo", [])
    return tuple(map(_mailbox, given if isinstance(given, list) else [given]))


def _message_id(email: AddressedEmail, outbox_id: str, sender: Mailbox) -> str:
    """Return the Message-ID.

    If several messages share it, it must not be the id of one of them, because that message would get all bounces.
    """
    if (own := email.own_message_id) is not None:
        return own
    unique = str(uuid5(NAMESPACE_OID, outbox_id)) if email.is_shared else outbox_id
    return message_id(unique, address.domain_of(sender.address))
