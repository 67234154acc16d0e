"""Accept raw emails: complete MIME messages that are sent unchanged to the recipients of the envelope."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import tzinfo
from typing import Annotated, Any, Final, Literal
from uuid import uuid4

from pydantic import BeforeValidator, ConfigDict, Field

from mailwright.access.api_keys import Caller
from mailwright.audience import lists
from mailwright.content.headers import PROVIDER_COMMANDS, Mailbox, date_line, message_id, message_id_line
from mailwright.content.raw import HeaderField, InvalidEmail, RawEmail, parse_raw
from mailwright.domain import address
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import IdempotencyConflict
from mailwright.domain.ids import uuid7s
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.lifetimes import LIFETIME_FIELD, MAX_LIFETIME_MINUTES
from mailwright.domain.message import (
    ENVELOPE_FROM,
    OTHER_SENDERS,
    OWN_MESSAGE_ID,
    RAW_BYTES,
    WARNINGS,
    Accepted,
    NewMessage,
    RawContent,
    Source,
    raw_dedupe_key,
)
from mailwright.domain.schedule import has_zone
from mailwright.domain.sender_domains import AcceptWarning, FindWarnings, SenderDomains
from mailwright.domain.sender_policy import UNRESTRICTED, SenderPolicy
from mailwright.domain.states import OnDoubt, Priority
from mailwright.ops.logs import logger
from mailwright.ops.provider_kinds import KINDS
from mailwright.outbox import tenants
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.outbox.sender_domains import SenderDirectory
from mailwright.sources.api.emails import with_email_id
from mailwright.sources.api.fields import Identifier, ListKey, RequestModel, RequestTime, Tag
from mailwright.sources.api.messages import FindRefusal, RequestContext, check_schedule, never_refused
from mailwright.sources.api.named_lists import find_named_lists
from mailwright.sources.api.provider_headers import join_tags, read_provider_headers
from mailwright.sources.api.requests import ListNotFound
from mailwright.sources.api.senders import require_domains, require_senders
from mailwright.sources.api.validation import FieldError, RequestInvalid, invalid, parse
from mailwright.storage.database import Database

log = logger(__name__)

MAX_RECIPIENTS: Final = 100
PREFIX: Final = "x-mailwright-"
# Mailwright prepends this header to each message. Forwarded emails may have one; it is removed, and is not an option.
OUR_ID: Final = "x-mailwright-message"
HEADER_PREFIX: Final = "X-Mailwright-"
_OPTIONS: Final = (PREFIX, *PROVIDER_COMMANDS)
# Headers that would show hidden recipients, or that only the last mail server writes.
_REMOVED: Final = frozenset({"bcc", "resent-bcc", "return-path"})


def _split_tags(value: Any) -> Any:
    return [tag.strip() for tag in value.split(",") if tag.strip()] if isinstance(value, str) else value


def _require_off(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() != "off":
        raise invalid("invalid", "must be off: a raw email is sent unchanged, so its links cannot be tracked")
    return "off"


class RawOptions(RequestModel):
    """The options of a raw email, from headers that Mailwright reads and removes."""

    model_config = ConfigDict(alias_generator=lambda name: HEADER_PREFIX + name.title().replace("_", "-"))

    list_key: Annotated[ListKey | None, Field(alias=f"{HEADER_PREFIX}List")] = None
    tags: Annotated[list[Tag], BeforeValidator(_split_tags), Field(max_length=20)] | None = None
    campaign: Tag | None = None
    send_at: RequestTime | None = None
    expires_at: RequestTime | None = None
    lifetime_minutes: Annotated[int, Field(ge=1, le=MAX_LIFETIME_MINUTES)] | None = None
    tracking: Annotated[Literal["off"], BeforeValidator(_require_off)] | None = None
    idempotency_key: Annotated[Identifier, Field(max_length=255)] | None = None


NO_OPTIONS: Final = RawOptions()
_LIST_KEY: Final = "listKey"
_CONFLICT: Final = "This Message-ID or idempotency key was already used for a different email to the same recipient."


def changed_by_provider(name: str) -> AcceptWarning:
    """Return the warning for a provider whose API takes fields instead of the original bytes."""
    label = KINDS[name].label
    return AcceptWarning(
        "RAW_CHANGED_BY_PROVIDER",
        f"{label}'s API does not take raw email: recipients see only their own address in To, and parts other than "
        f"text and HTML become attachments. To send the bytes unchanged, use {label}'s SMTP server or another "
        "provider.",
    )


# These values are immutable, but not declared frozen, because they are created for each email and a frozen class is
# slower.


@dataclass(slots=True)
class Envelope:
    """The SMTP sender and recipients, which may differ from the headers. Automatic replies have an empty sender."""

    sender: str
    recipients: tuple[str, ...]


@dataclass(slots=True)
class AcceptedRaw:
    """The messages of one raw email, one for each recipient, in their order."""

    recipients: tuple[str, ...]
    messages: tuple[Accepted, ...]
    warnings: tuple[AcceptWarning, ...]

    @property
    def is_replay(self) -> bool:
        return all(message.is_replay for message in self.messages)


@dataclass(slots=True)
class _Submission:
    """A parsed email with its author, envelope, options and warnings."""

    email: RawEmail
    author: Mailbox
    envelope: Envelope
    options: RawOptions
    warnings: tuple[AcceptWarning, ...]
    metadata: Mapping[str, Any] | None = None
    senders: Sequence[str] | None = ()  # All addresses in From and Sender; None if they are ambiguous.


class RawMessages:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        acceptor: Acceptor,
        default_zone: str = "UTC",
        domains: SenderDomains | None = None,
        *,
        find_warnings: FindWarnings,
        directory: SenderDirectory | None = None,
        find_refusal: FindRefusal = never_refused,
    ) -> None:
        """`domains` are the installation's own. An email from another domain is accepted with a warning.

        `find_warnings` returns the warnings to store with every email of a tenant. `directory` knows the sender domains
        of the tenants. `find_refusal` enforces approvals.
        """
        self._database = database
        self._clock = clock
        self._acceptor = acceptor
        self._default_zone = default_zone  # The time zone of tenants that have not set one.
        self._domains = domains or SenderDomains()
        self._find_warnings = find_warnings
        self._directory = directory
        self._find_refusal = find_refusal

    async def send(
        self,
        context: RequestContext,
        content: bytes,
        sender: str | None = None,
        recipients: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        list_key: str | None = None,
    ) -> AcceptedRaw:
        """Accept one email. When this returns, a message for each recipient is stored durably.

        A missing `sender`, no `recipients` or a missing `list_key` is read from the headers. If anything is invalid,
        nothing is stored.
        """
        email = parse_raw(content)
        author = email.sender
        envelope = _envelope(email, author, sender, recipients)
        policy = UNRESTRICTED if self._directory is None else await self._directory.current()
        senders = _check_senders(policy, context.caller, email, envelope)
        given = [field for field in email.fields if field.name.startswith(PREFIX) and field.name != OUR_ID]
        options = NO_OPTIONS
        if email.provider_options:
            named = read_provider_headers(email.provider_options)
            wanted = (named.list_key, named.list_header) if list_key is None else (list_key, _LIST_KEY)
            options = await self._options(context.caller, given, *wanted)
            options = options.model_copy(update={"tags": join_tags(options.tags, named)})
            metadata = {**named.metadata, **(metadata or {})}
        elif given or list_key is not None:
            options = await self._options(context.caller, given, list_key, _LIST_KEY)
        if options.list_key is None and (named_lists := find_named_lists(email.firsts, options.tags)).keys:
            existing = await self._existing_lists(context.caller, named_lists.keys)
            found = named_lists.choose(existing, f"{HEADER_PREFIX}Tags")
            options = options.model_copy(update={"list_key": found}) if found is not None else options
        is_own = policy.is_own(context.caller.tenant_id, author.address)
        foreign = () if is_own else self._domains.warnings(address.domain_of(author.address))
        warnings = (*foreign, *self._find_warnings(context.caller.tenant_id))
        submission = _Submission(email, author, envelope, options, warnings, metadata, senders)
        now = self._clock.now()
        messages = _messages(context, submission, now)
        accepted = None
        if options.send_at is not None:
            accepted = await self._find_earlier(context.caller, messages, options.send_at, now)
        if accepted is None:
            if (refusal := await self._find_refusal(context, messages)) is not None:
                raise refusal
            accepted = await self._acceptor.accept(messages)
        if any(one.is_conflict for one in accepted):
            has_own_key = context.idempotency_key and not context.is_derived_key
            raise IdempotencyConflict(None if has_own_key else _CONFLICT)
        # An email to several recipients is sent to the others.
        stored = [pair for pair in zip(envelope.recipients, accepted, strict=True) if not pair[1].is_erasing]
        if not stored:
            raise ErasurePending
        for each in warnings:
            domain = address.domain_of(author.address)
            log.warning("message_warning", outboxId=stored[0][1].outbox_id, code=each.code, fromDomain=domain)
        return AcceptedRaw(tuple(email for email, _ in stored), tuple(one for _, one in stored), warnings)

    async def _find_earlier(
        self, caller: Caller, messages: Sequence[NewMessage], send_at: Instant, now: Instant
    ) -> list[Accepted] | None:
        """Return the messages of an email that was accepted before its send time; None if the send time is valid."""
        try:
            check_schedule(send_at, now, f"{HEADER_PREFIX}Send-At")
        except RequestInvalid:
            found = await self._find_all(caller, messages)
            if found is None:
                raise
            return found
        return None

    async def _find_all(self, caller: Caller, messages: Sequence[NewMessage]) -> list[Accepted] | None:
        digests = {message.dedupe_key or "": message.body_digest or "" for message in messages}
        found = await self._acceptor.find_accepted(caller.tenant_id, digests)
        return [found[key] for key in digests] if found.keys() == digests.keys() else None

    async def _options(
        self, caller: Caller, given: Collection[HeaderField], list_key: str | None, list_field: str
    ) -> RawOptions:
        """Return the options in the headers, with the list that the field `list_field` names."""
        options = NO_OPTIONS
        if given:
            options = parse(RawOptions, _option_values(given), await self._zone(caller, given))
            await self._require_list(caller, options.list_key, f"{HEADER_PREFIX}List")
        if list_key is None or list_key == options.list_key:
            return options
        if options.list_key is not None:
            reason = f"differs from the header {HEADER_PREFIX}List; remove one of them"
            raise RequestInvalid([FieldError(list_field, "INVALID", reason)])
        await self._require_list(caller, list_key, list_field)
        return options.model_copy(update={"list_key": list_key})

    async def _require_list(self, caller: Caller, list_key: str | None, field: str) -> None:
        if list_key is None:
            return
        if list_key not in await self._existing_lists(caller, {list_key}):
            raise ListNotFound(list_key, field)

    async def _existing_lists(self, caller: Caller, list_keys: AbstractSet[str]) -> set[str]:
        async with self._database.read() as tx:
            return await lists.existing_keys(tx, caller.tenant_id, list_keys)

    async def _zone(self, caller: Caller, given: Collection[HeaderField]) -> tzinfo | None:
        """Return the tenant's time zone if any time has no zone."""
        times = [field.value for field in given if field.name.endswith("-at")]
        if all(map(has_zone, times)):
            return None
        return await tenants.load_zone(self._database, caller.tenant_id, self._default_zone)


def _check_senders(policy: SenderPolicy, caller: Caller, email: RawEmail, envelope: Envelope) -> list[str] | None:
    """Return every sender in the headers.

    Raise unless the caller may use them and the envelope sender. If the caller may use every sender, return None for
    headers that programs could read in different ways. The worker checks the senders again, because a tenant may have a
    sender domain by then.
    """
    is_unrestricted = caller.senders is None and policy.is_empty
    try:
        senders = email.all_senders
    except InvalidEmail:
        if is_unrestricted:
            return None
        raise
    found = [sender.address for sender in senders]
    if not is_unrestricted:
        bounces_to = [envelope.sender] if envelope.sender else []
        require_senders(caller, [*senders, *(Mailbox(each, None) for each in bounces_to)])
        require_domains(policy, caller.tenant_id, [*found, *bounces_to])
    return found


def _messages(context: RequestContext, submission: _Submission, now: Instant) -> list[NewMessage]:
    email, envelope, options = submission.email, submission.envelope, submission.options
    outbox_ids = uuid7s(now, len(envelope.recipients))
    own_key = options.idempotency_key or email.identity
    key = own_key if own_key and context.is_derived_key else context.idempotency_key or own_key
    identity = email.identity or _new_message_id(submission.author)
    raw = _raw_content(email, identity, now)
    is_bulk = options.list_key is not None
    subject, payload = email.subject, _payload(submission, raw)
    payload[OWN_MESSAGE_ID] = identity
    body_digest = _body_digest(email, raw) if key else None
    return [
        NewMessage(
            outbox_id=outbox_id,
            tenant_id=context.caller.tenant_id,
            source=Source.API,
            request_id=context.request_id,
            to_email=(to_email := address.normal(recipient)),
            subject=subject,
            payload=with_email_id({"to": recipient, **payload}, outbox_id, outbox_ids[0]),
            dedupe_key=raw_dedupe_key(key, to_email) if key else None,
            body_digest=body_digest,
            on_doubt=OnDoubt.HOLD if is_bulk else OnDoubt.RESEND,
            priority=Priority.BULK if is_bulk else Priority.TRANSACTIONAL,
            is_bulk=is_bulk,
            list_key=options.list_key,
            scheduled_at=options.send_at,
            expires_at=options.expires_at,
            raw=raw,
            submission_id=outbox_ids[0],
        )
        for outbox_id, recipient in zip(outbox_ids, envelope.recipients, strict=True)
    ]


def _envelope(email: RawEmail, author: Mailbox, sender: str | None, recipients: Sequence[str]) -> Envelope:
    chosen = list(recipients) or email.recipients
    if not chosen:
        named = "To, Cc or Bcc"
        if email.is_resent:
            named = (
                "Resent-To, Resent-Cc or Resent-Bcc. It has Resent- fields, so To, Cc and Bcc name earlier recipients"
            )
        raise RequestInvalid([FieldError("to", "REQUIRED", f"is required: the email names no recipient in {named}")])
    if len(chosen) > MAX_RECIPIENTS:
        raise RequestInvalid([FieldError("to", "TOO_MANY", f"has more than {MAX_RECIPIENTS} recipients")])
    wanted = {address.normal(valid): valid for valid in (parse_recipient(text, "to") for text in chosen)}
    resender = None if recipients else email.resender
    chosen_sender = (resender or author.address) if sender is None else parse_sender(sender)
    return Envelope(chosen_sender, tuple(wanted.values()))


def parse_sender(text: str) -> str:
    """Return the envelope sender. An empty one is allowed, for automatic replies."""
    return parse_recipient(text, "from") if text else ""


def parse_recipient(text: str, field: str) -> str:
    """Return a recipient address for the envelope.

    It may have non-ASCII characters before the @: whether it can be delivered depends on the provider.
    """
    try:
        return address.deliverable(text)
    except address.InvalidAddress as error:
        raise RequestInvalid([FieldError(field, "INVALID_EMAIL", f"{text[:80]!r} is not valid: {error}")]) from error


def _option_values(given: Collection[HeaderField]) -> dict[str, str]:
    values: dict[str, str] = {}
    for field in given:
        name = HEADER_PREFIX + field.name.removeprefix(PREFIX).title()
        if name in values:
            raise RequestInvalid([FieldError(name, "TWICE", "occurs more than once")])
        values[name] = field.value
    return values


def _new_message_id(author: Mailbox) -> str:
    """Return a Message-ID for all recipients.

    It is not the id of one message, because that message would get the bounces of the others.
    """
    return message_id(str(uuid4()), address.domain_of(author.address))


def _raw_content(email: RawEmail, identity: str, now: Instant) -> RawContent:
    """Return the bytes to send. Only whole header fields are removed or prepended."""
    kept = [field for field in email.fields if field.name not in _REMOVED and not field.name.startswith(_OPTIONS)]
    added = []
    if email.identity is None:
        added.append(message_id_line(identity))
        kept = [field for field in kept if field.name != "message-id"]
    if not email.first("date"):
        added.append(date_line(now))
        kept = [field for field in kept if field.name != "date"]
    content = email.to_bytes(kept)
    if added:
        content = b"".join([*[f"{line}\r\n".encode() for line in added], content])
    return RawContent.of(content, now)


def _body_digest(email: RawEmail, raw: RawContent) -> str:
    """Return the digest that tells a repeated submission from a different email with the same key."""
    untraced = email.untraced
    # Most emails are sent as they came, so their digest is known.
    return raw.digest if untraced is raw.content else hashlib.sha256(untraced).hexdigest()


def _payload(submission: _Submission, raw: RawContent) -> dict[str, Any]:
    """Return the fields that the pipeline and the dashboard need in addition to the raw bytes."""
    author, options = submission.author, submission.options
    sender = {"email": author.address, "name": author.name} if author.name else {"email": author.address}
    fixed = {"from": sender, ENVELOPE_FROM: submission.envelope.sender, RAW_BYTES: len(raw.content)}
    if submission.senders is None:
        fixed[OTHER_SENDERS] = None
    elif others := [each for each in dict.fromkeys(submission.senders) if each != author.address]:
        fixed[OTHER_SENDERS] = others
    if options is NO_OPTIONS and not submission.metadata and not submission.warnings:
        return fixed
    campaign = {"campaign": options.campaign} if options.campaign else {}
    values = {
        "tags": options.tags,
        "campaign": options.campaign,
        "metadata": {**(submission.metadata or {}), **campaign},
        LIFETIME_FIELD: options.lifetime_minutes,
        WARNINGS: [{"code": each.code, "detail": each.detail} for each in submission.warnings],
    }
    return {**fixed, **{name: value for name, value in values.items() if value}}
