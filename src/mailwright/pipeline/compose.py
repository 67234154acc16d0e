"""Validate, render and sign one message. Errors are values, not exceptions."""

import asyncio
import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field, replace
from typing import Any, Final

from mailwright.audience.suppressions import suppressed_among
from mailwright.content.attachments import EnclosureCache
from mailwright.content.headers import (
    DEDUPE_KEY,
    FEEDBACK_ID,
    InvalidHeader,
    Mailbox,
    UnsubscribeTargets,
    list_id,
    list_unsubscribe,
    message_id,
    opaque,
    parse_mailbox,
)
from mailwright.content.layout import Layout, LayoutCache, RecipientHeaders, SharedHeaders
from mailwright.content.mime import EmailAlternative, EmailAttachment, EmailParts, Enclosure, build_email
from mailwright.content.raw import InvalidEmail, parse_raw
from mailwright.content.segments_used import IN_SEGMENTS
from mailwright.content.template import InvalidTemplate, Template
from mailwright.content.template_store import StoredTemplate, TemplateStore
from mailwright.content.text import from_html
from mailwright.content.variables import on_one_line
from mailwright.domain import address
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import (
    ALTERNATIVES,
    DEDUPE_KEY_FIELD,
    ENVELOPE_FROM,
    IS_TEST,
    OWN_MESSAGE_ID,
    PREFERENCES_LINK_MARK,
    SEALED_LINK,
    SEALED_LINK_MARK,
    SENDER_HEADER,
    SUBJECT_TEMPLATE,
    UNSUBSCRIBE_LINK_MARK,
    Admitted,
    Claimed,
    Settlement,
    Source,
)
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.sender_domains import SenderDomains
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.unsubscribe_tokens import FIRST_TENANT, GENERAL, UnsubscribeTokens, unsubscribe_link
from mailwright.domain.web_view_tokens import WebViewTokens
from mailwright.ops.logs import logger
from mailwright.outbox.raw_contents import load_raw_contents
from mailwright.pipeline.conclude import ReadyMessage, fail_expired, fail_poisoned, fail_validation, is_poison
from mailwright.pipeline.senders import KEYS_UNREADABLE, MessageSender, MessageSenders
from mailwright.pipeline.tracking import MessageTracker, TrackingSettings
from mailwright.pipeline.validate import ValidationFailure, ValidationKind, validate
from mailwright.storage.database import Database

log = logger(__name__)

COPIES = ("cc", "bcc")
MAX_LOCAL_PART = 64  # RFC 5321, section 4.5.3.1.1


@dataclass(frozen=True, slots=True)
class SenderIdentity:
    """The sender's address and links in every message."""

    sender: Mailbox
    bounce_address: str | None
    unsubscribe_url: str
    tokens: UnsubscribeTokens
    postal_address: str = ""
    # The URL of the public pages, and the tokens for links to the web view; None if there is no web view.
    public_url: str = ""
    web_view_tokens: WebViewTokens | None = None
    tags_bounces: bool = True
    domains: SenderDomains = field(default_factory=SenderDomains)  # Only messages from these domains are signed.
    tracking: TrackingSettings | None = None  # None if nothing is tracked.
    reply_address: str | None = None  # The Reply-To of messages without their own.
    names_mailout_messages: bool = True  # Whether the unsubscribe links of mailouts contain the message ID.

    def names_message(self, source: str) -> bool:
        """Return whether unsubscribe links contain the message ID, to which an unsubscribe is then attributed."""
        return self.names_mailout_messages or source != Source.MAILOUT

    def envelope_sender(self, outbox_id: str, sender: str, return_path: str | None = None) -> str:
        """Return the envelope sender. It contains the message ID, which identifies the message of any bounce.

        `return_path` replaces the domain of the bounce address, so that SPF passes for the tenant's own domain.
        """
        if self.bounce_address is None:
            return sender
        local = self.bounce_address.rpartition("@")[0]
        return self._tagged(self.bounce_address if return_path is None else f"{local}@{return_path}", outbox_id)

    def has_envelope_sender(self, sending: MessageSender) -> bool:
        """Return whether the bounce address of the settings is the envelope sender of the message."""
        return self.bounce_address is not None and sending.return_path is None

    def reply_to(self, claimed: Claimed, sender: Mailbox) -> Mailbox | None:
        """Return the address for replies, which contains the message ID; None if the message has its own Reply-To."""
        if self.reply_address is None or claimed.payload.get("replyTo") is not None:
            return None
        return Mailbox(self._tagged(self.reply_address, claimed.outbox_id), sender.name)

    def _tagged(self, email: str, outbox_id: str) -> str:
        local, _, domain = email.rpartition("@")
        tagged = f"{local}+{outbox_id}"
        return f"{tagged}@{domain}" if self.tags_bounces and len(tagged) <= MAX_LOCAL_PART else email


@dataclass(frozen=True, slots=True)
class RecipientLinks:
    """The links in the standard variables of a bulk message."""

    unsubscribe: str
    preferences: str
    web_view: str


def template_values(payload: Mapping[str, Any], postal_address: str, links: RecipientLinks | None) -> dict[str, Any]:
    """Return the values for a template: the message's own variables and the standard variables."""
    values = {
        "name": payload.get("toName") or "",
        "unsubscribe_url": "",
        "preferences_url": "",
        "web_view_url": "",
        "postal_address": on_one_line(postal_address),
        **payload.get("variables", {}),
        "email": payload["to"],
    }
    if "inSegments" in payload:
        values[IN_SEGMENTS] = payload["inSegments"]  # after the variables, which an attribute could replace
    if links is not None:
        # Set these last, so that a contact attribute of the same name cannot replace the links of a bulk message.
        values["unsubscribe_url"] = links.unsubscribe
        values["preferences_url"] = links.preferences
        values["web_view_url"] = links.web_view
    return values


class Composer:
    def __init__(
        self,
        database: Database,
        templates: TemplateStore,
        identity: SenderIdentity,
        *,
        senders: MessageSenders | None = None,
        threads: Executor | None = None,
        shows_sealed_links: bool = True,
    ) -> None:
        self._database = database
        self._templates = templates
        self._identity = identity
        self._threads = threads
        self._shows_sealed_links = shows_sealed_links
        self._senders = senders or MessageSenders(identity.sender, identity.domains)
        self._layouts = LayoutCache()
        self._tracker = MessageTracker(
            database, identity.tracking, public_url=identity.public_url, unsubscribe_url=identity.unsubscribe_url
        )
        self._enclosures = EnclosureCache(database)
        self._enclosed: dict[int, Enclosure] = {}  # The attachments that a campaign's messages share, by message key.
        self._raw: dict[int, bytes] = {}  # Raw emails that applications composed, by message key.
        self.suppressed_copies: dict[int, set[str]] = {}  # Addresses that get no copy, by message key.

    async def load_inputs(self, batch: Sequence[Claimed]) -> None:
        """Load the data that `prepare` needs from the database, for a whole batch."""
        await self._templates.load({claimed.template_key for claimed in batch if claimed.template_key is not None})
        await self._tracker.store_links(batch, self._templates)
        await self._senders.load(batch)
        for claimed in batch:
            if ids := claimed.payload.get("attachmentIds"):
                enclosure = await self._enclosures.load(claimed.tenant_id, tuple(ids))
                if enclosure is not None:
                    self._enclosed[claimed.message_key] = enclosure
        with_copies = [claimed for claimed in batch if "cc" in claimed.payload or "bcc" in claimed.payload]
        for claimed in with_copies:
            wanted = {_normal(box) for boxes in _copy_boxes(claimed) for box in boxes}
            async with self._database.read() as tx:
                suppressed = await suppressed_among(tx, claimed.tenant_id, wanted, claimed.list_key)
            self.suppressed_copies[claimed.message_key] = suppressed

    async def load_raw(self, batch: Sequence[Claimed]) -> None:
        """Load raw emails shortly before they are needed, because they can be large."""
        wanted: dict[int, list[Claimed]] = {}
        for claimed in batch:
            if claimed.content_digest is not None:
                wanted.setdefault(claimed.tenant_id, []).append(claimed)
        for tenant_id, messages in wanted.items():
            digests = {claimed.content_digest for claimed in messages if claimed.content_digest is not None}
            async with self._database.read() as tx:
                contents = await load_raw_contents(tx, tenant_id, digests)
            for claimed in messages:
                if (content := contents.get(claimed.content_digest or "")) is not None:
                    self._raw[claimed.message_key] = content

    def forget(self, batch: Iterable[Claimed]) -> None:
        """Drop the loaded inputs of released messages. They are loaded again after the next claim."""
        for claimed in batch:
            self.suppressed_copies.pop(claimed.message_key, None)
            self._enclosed.pop(claimed.message_key, None)
            self._raw.pop(claimed.message_key, None)
            self._senders.forget(claimed)

    def prepare(self, admitted: Admitted, now: Instant) -> ReadyMessage | Settlement:
        """Validate and render a message."""
        try:
            return self._prepare(admitted, now)
        finally:
            # Most messages have no inputs of their own.
            if self.suppressed_copies or self._enclosed or self._raw or self._senders.has_decided:
                self.forget([admitted.claimed])

    async def render_unsigned(self, claimed: Claimed, at: Instant) -> bytes:
        """Render a message for display: unsigned and without validation."""
        await self.load_inputs([claimed])
        await self.load_raw([claimed])
        try:
            return self._outgoing(claimed, self._senders.of(claimed), at).content
        finally:
            self.forget([claimed])

    def _prepare(self, admitted: Admitted, now: Instant) -> ReadyMessage | Settlement:
        claimed = admitted.claimed
        if is_poison(claimed):
            return fail_poisoned(claimed, now)
        if claimed.expires_at is not None and now >= claimed.expires_at:
            return fail_expired(claimed, now)
        failure = validate(claimed) or self._senders.failure(claimed)
        if failure is not None:
            # An operator can restore the key for stored secrets, and then retry the dead letter.
            is_dead_letter = failure.code == KEYS_UNREADABLE
            return replace(fail_validation(claimed, failure, now), is_dead_letter=is_dead_letter)
        try:
            sending = self._senders.of(claimed)
            outgoing = self._outgoing(claimed, sending, now)
        except (InvalidTemplate, InvalidHeader, InvalidEmail, address.InvalidAddress) as error:
            failure = ValidationFailure(ValidationKind.TEMPLATE, "INVALID_TEMPLATE", str(error))
            return fail_validation(claimed, failure, now)
        except Exception as error:  # One message that cannot be built must not stop the worker.
            log.exception("message_not_built", **claimed.log_fields)
            reason = f"The message could not be built: {type(error).__name__}."
            failure = ValidationFailure(ValidationKind.INTEGRITY, "INVALID_PAYLOAD", reason)
            return fail_validation(claimed, failure, now)
        copies = self._copy_addresses(claimed)
        return ReadyMessage(claimed, admitted, outgoing, now, admitted.pacing, copies, sending.signer)

    def _copy_addresses(self, claimed: Claimed) -> tuple[str, ...]:
        if (suppressed := self.suppressed_copies.get(claimed.message_key)) is None:
            return ()
        wanted = {_normal(box) for boxes in _copy_boxes(claimed) for box in boxes}
        return tuple(sorted(wanted - suppressed))

    async def sign(self, batch: Sequence[ReadyMessage], now: Instant) -> list[ReadyMessage]:
        """Sign messages from our domains in threads, because RSA takes milliseconds and would block the event loop."""
        if not any(ready.signer is not None for ready in batch):
            return list(batch)
        loop = asyncio.get_running_loop()
        own = [(ready, ready.signer) for ready in batch if ready.signer is not None]
        contents = await asyncio.gather(
            *(loop.run_in_executor(self._threads, signer.sign, ready.outgoing.content, now) for ready, signer in own)
        )
        signed = {
            ready.claimed.message_key: replace(ready, outgoing=replace(ready.outgoing, content=content))
            for (ready, _), content in zip(own, contents, strict=True)
        }
        return [signed.get(ready.claimed.message_key, ready) for ready in batch]

    def _outgoing(self, claimed: Claimed, sending: MessageSender, now: Instant) -> OutgoingMessage:
        payload, sender = claimed.payload, sending.sender
        to = Mailbox(payload["to"], payload.get("toName"))
        if claimed.content_digest is not None:
            return self._outgoing_raw(claimed, sending, to)
        cc, bcc = self._copies(claimed) if claimed.message_key in self.suppressed_copies else ((), ())
        shown_to, shown_cc, original_id = _shown_recipients(claimed) if "copy" in payload else (to, cc, None)
        identity = payload.get(OWN_MESSAGE_ID) or message_id(
            original_id or claimed.outbox_id, address.domain_of(sender.address)
        )
        addressed = RecipientHeaders(
            shown_to,
            identity,
            now,
            claimed.outbox_id,
            self._unsubscribe_url(claimed),
            self._identity.reply_to(claimed, sender),
            payload.get(DEDUPE_KEY_FIELD),
        )
        # Fast path: a template message without its own Cc, attachments, subject or Sender is one join of prepared
        # pieces.
        get = payload.get
        has_own = shown_cc or get("attachments") or get("subject") or get(SENDER_HEADER)
        if claimed.template_key is not None and not has_own:
            content, own_subject = self._fill_layout(claimed, sender, addressed)
        else:
            content, own_subject = self._compose(claimed, sender, addressed, shown_cc)
        copies = [address.deliverable(box.address) for box in (*cc, *bcc)] if cc or bcc else ()
        return OutgoingMessage(
            claimed.outbox_id,
            address.deliverable(self._identity.envelope_sender(claimed.outbox_id, sender.address, sending.return_path)),
            (address.deliverable(to.address), *copies),
            content,
            is_canonical=True,
            uses_default_sender=self._identity.has_envelope_sender(sending) or sending.is_installations,
            uses_default_from=sending.is_installations,
            is_tracked=self._tracker.is_individual(claimed),
            dedupe_key=addressed.dedupe_key,
            own_subject=own_subject,
            is_bulk=claimed.is_bulk,
        )

    def _outgoing_raw(self, claimed: Claimed, sending: MessageSender, to: Mailbox) -> OutgoingMessage:
        """Return the application's own bytes after our header; bulk messages also get the list headers they lack."""
        content = self._raw.get(claimed.message_key)
        if content is None:
            raise InvalidTemplate("The content of this message no longer exists.")
        if claimed.is_bulk:
            missing = _missing_list_headers(claimed, sending.sender, content, self._unsubscribe_url(claimed))
            content = b"".join([*missing, content])
        content = f"{opaque('X-Mailwright-Message', claimed.outbox_id, field='outbox_id')}\r\n".encode() + content
        # Keep the empty envelope sender of an auto-reply, so that no server replies to it.
        given = claimed.payload.get(ENVELOPE_FROM, sending.sender.address)
        envelope = self._identity.envelope_sender(claimed.outbox_id, given, sending.return_path) if given else ""
        return OutgoingMessage(
            claimed.outbox_id,
            address.deliverable(envelope) if envelope else "",
            (address.deliverable(to.address),),
            content,
            uses_default_sender=self._identity.has_envelope_sender(sending),
            uses_default_from=False,
            is_bulk=claimed.is_bulk,
        )

    def _copies(self, claimed: Claimed) -> tuple[tuple[Mailbox, ...], tuple[Mailbox, ...]]:
        """Return the Cc and Bcc recipients, without suppressed addresses."""
        left = self.suppressed_copies[claimed.message_key]
        cc, bcc = (tuple(box for box in boxes if _normal(box) not in left) for boxes in _copy_boxes(claimed))
        return cc, bcc

    def _fill_layout(self, claimed: Claimed, sender: Mailbox, addressed: RecipientHeaders) -> tuple[bytes, str | None]:
        key, mode = _layout_key(claimed), self._tracker.mode_of(claimed)
        if self._senders.is_decided(claimed):
            key = (*key, sender)  # The default sender of a tenant changes with its sender domains.
        key = (*key, *self._tracker.layout_key(claimed, mode))
        layout = self._layouts.get(key, lambda: self._compile(claimed, sender, mode))
        shows_view = "web_view_url" in layout.variables
        values = self._values(claimed, addressed.unsubscribe_url, shows_view=shows_view)
        content = layout.fill(addressed, values, self._enclosure(claimed), self._tracker.recipient(claimed, mode))
        return content, layout.own_subject(values)

    def _enclosure(self, claimed: Claimed) -> Enclosure | None:
        enclosure = self._enclosed.get(claimed.message_key)
        if enclosure is None and claimed.payload.get("attachmentIds"):
            raise InvalidTemplate("An attachment of this message no longer exists.")
        return enclosure

    def _compile(self, claimed: Claimed, sender: Mailbox, mode: TrackingMode) -> Layout:
        stored, payload = self._template(claimed), claimed.payload
        frame = SharedHeaders(sender, _reply_to(payload), _headers(claimed, sender), _feedback_id(claimed))
        links = self._tracker.rewriter(claimed, mode, stored.html)
        subject = payload.get(SUBJECT_TEMPLATE, stored.subject)
        return Layout.compile(frame, subject=subject, html=stored.html, text=stored.text, links=links)

    def _compose(
        self, claimed: Claimed, sender: Mailbox, addressed: RecipientHeaders, cc: tuple[Mailbox, ...]
    ) -> tuple[bytes, str | None]:
        """Return the email, and its subject if it was rendered from a template."""
        payload, url = claimed.payload, addressed.unsubscribe_url
        own_headers = _headers(claimed, sender)
        if addressed.dedupe_key:
            own_headers = {**own_headers, DEDUPE_KEY: addressed.dedupe_key}
        subject, html, text = payload.get("subject", ""), payload.get("html"), payload.get("text")
        others = [EmailAlternative(each["contentType"], each["content"]) for each in payload.get(ALTERNATIVES, ())]
        if claimed.template_key is not None:
            stored = self._template(claimed)
            template_subject = payload.get(SUBJECT_TEMPLATE, stored.subject)
            template = Template(subject=template_subject, html=stored.html, text=stored.text)
            rendered = template.render(self._values(claimed, url))
            subject, html, text = subject or rendered.subject, rendered.html, rendered.text
        elif claimed.is_bulk:
            html, text = (self._with_links(part, claimed, url) for part in (html, text))
            others = [replace(each, content=self._with_links(each.content, claimed, url) or "") for each in others]
        mode = self._tracker.mode_of(claimed)
        if (links := self._tracker.rewriter(claimed, mode, "")) is not None:
            own = (url,) if url else ()
            text = links.rewrite_text(from_html(html or "") if text is None else text, own)
            html = links.rewrite(html, self._tracker.recipient(claimed, mode), own) if html else html
        if SEALED_LINK in payload and self._shows_sealed_links:
            link = self._database.secret_box.decrypt(payload[SEALED_LINK])
            html, text = ((part or "").replace(SEALED_LINK_MARK, link) for part in (html, text))
        content = build_email(
            EmailParts(
                message_id=addressed.message_id,
                date=addressed.date,
                sender=sender,
                to=addressed.to,
                subject=subject,
                html=html,
                text=text,
                reply_to=_reply_to(payload) or ((addressed.reply_to,) if addressed.reply_to else ()),
                cc=cc,
                headers=own_headers,
                attachments=tuple(_attachment(value) for value in payload.get("attachments", ())),
                alternatives=tuple(others),
                sender_header=parse_mailbox(payload[SENDER_HEADER]) if SENDER_HEADER in payload else None,
                enclosure=self._enclosure(claimed),
                outbox_id=claimed.outbox_id,
                unsubscribe=UnsubscribeTargets(url) if url else None,
                feedback_id=_feedback_id(claimed),
            )
        )
        return content, None if subject == payload.get("subject") else subject

    def _with_links(self, part: str | None, claimed: Claimed, url: str | None) -> str | None:
        if not part or not (UNSUBSCRIBE_LINK_MARK in part or PREFERENCES_LINK_MARK in part):
            return part
        values = self._values(claimed, url, shows_view=False)
        part = part.replace(UNSUBSCRIBE_LINK_MARK, values["unsubscribe_url"])
        return part.replace(PREFERENCES_LINK_MARK, values["preferences_url"])

    def _template(self, claimed: Claimed) -> StoredTemplate:
        stored = self._templates.cached(claimed.template_key or 0)
        if stored is None or stored.tenant_id != claimed.tenant_id:
            raise InvalidTemplate("The template of this message no longer exists.")
        return stored

    def _values(self, claimed: Claimed, unsubscribe_url: str | None, *, shows_view: bool = True) -> dict[str, Any]:
        identity, links = self._identity, None
        if unsubscribe_url is not None and claimed.is_bulk:
            preferences = f"{identity.public_url}/preferences"
            links = RecipientLinks(
                unsubscribe_url,
                # The same token is valid for the preferences page.
                preferences + unsubscribe_url.removeprefix(identity.unsubscribe_url),
                web_view_link(identity.public_url, identity.web_view_tokens, claimed.outbox_id) if shows_view else "",
            )
        return template_values(claimed.payload, identity.postal_address, links)

    def _unsubscribe_url(self, claimed: Claimed) -> str | None:
        if not claimed.is_bulk:
            return claimed.payload.get("unsubscribeUrl")  # For a notification, another system manages subscriptions.
        identity = self._identity
        tokens = identity.tokens.for_tenant(claimed.tenant_id)
        signed = tokens.for_test() if claimed.payload.get(IS_TEST) else tokens
        token = signed.make(claimed.to_email, _list_key(claimed))
        message = claimed.outbox_id if identity.names_message(claimed.source) else None
        return unsubscribe_link(identity.unsubscribe_url, token, _other_tenant(claimed), message)


def _missing_list_headers(claimed: Claimed, sender: Mailbox, content: bytes, url: str | None) -> Iterator[bytes]:
    """Yield the required headers of bulk email that the application's email lacks."""
    given = {field.name for field in parse_raw(content).fields}
    if url is not None and "list-unsubscribe" not in given:
        yield f"{list_unsubscribe(UnsubscribeTargets(url))}\r\n".encode()
    if "list-id" not in given:
        yield f"List-Id: {_headers(claimed, sender)['List-Id']}\r\n".encode()
    if FEEDBACK_ID not in given and (feedback_id := _feedback_id(claimed)):
        yield f"{opaque('Feedback-ID', feedback_id, field='feedback_id')}\r\n".encode()


def web_view_link(public_url: str, tokens: WebViewTokens | None, outbox_id: str) -> str:
    return "" if tokens is None else f"{public_url}/view/{tokens.make(outbox_id)}"


def _copy_boxes(claimed: Claimed) -> Iterator[list[Mailbox]]:
    """Yield the Cc and the Bcc recipients, without duplicates and without the recipient in To."""
    seen = {_normal(parse_mailbox(claimed.payload["to"]))}
    for kind in COPIES:
        boxes: dict[str, Mailbox] = {}
        for value in claimed.payload.get(kind, ()):
            box = parse_mailbox(value)
            boxes.setdefault(_normal(box), box)
        yield [box for email, box in boxes.items() if email not in seen]
        seen.update(boxes)


def _shown_recipients(claimed: Claimed) -> tuple[Mailbox, tuple[Mailbox, ...], str]:
    """Return To, Cc and the ID of the original message; they differ if this message is a copy to one recipient."""
    copy = claimed.payload["copy"]
    return Mailbox(copy["to"], copy.get("toName")), tuple(map(parse_mailbox, copy.get("cc", ()))), copy["of"]


def _normal(box: Mailbox) -> str:
    try:
        return address.normal(box.address)
    except address.InvalidAddress:
        return box.address  # The build step rejects an invalid address with a reason.


def _reply_to(payload: Mapping[str, Any]) -> tuple[Mailbox, ...]:
    """Return the addresses for replies: none, one, or a list of several."""
    value = payload.get("replyTo")
    if value is None:
        return ()
    return tuple(map(parse_mailbox, value)) if isinstance(value, list) else (parse_mailbox(value),)


def _attachment(value: Mapping[str, Any]) -> EmailAttachment:
    try:
        content = base64.b64decode(value["content"], validate=True)
    except binascii.Error as error:
        raise InvalidTemplate(f"The attachment {value.get('filename')!r} is not valid base64.") from error
    return EmailAttachment(value["filename"], value["contentType"], content, value.get("contentId"))


_NOTHING_OWN: Final = (None,) * 4


def _layout_key(claimed: Claimed) -> tuple[Any, ...]:
    """Return the key under which messages share one compiled layout."""
    payload = claimed.payload
    key = (claimed.template_key, claimed.tenant_id, claimed.source, payload.get("campaign"), _list_key(claimed))
    get = payload.get
    own = (get("from"), get("replyTo"), get("headers"), get(SUBJECT_TEMPLATE))
    return key if own == _NOTHING_OWN else (*key, repr(own))


def _list_key(claimed: Claimed) -> str:
    return claimed.list_key or GENERAL


def _other_tenant(claimed: Claimed) -> str | None:
    return None if claimed.tenant_id == FIRST_TENANT else claimed.tenant_name


def _headers(claimed: Claimed, sender: Mailbox) -> Mapping[str, str]:
    """Return the custom headers, with a List-Id for bulk messages unless the sender set one.

    For messages without a list, the List-Id contains the source, so that recipients can filter mailouts and articles.
    """
    own: Mapping[str, str] = claimed.payload.get("headers", {})
    if not claimed.is_bulk or any(name.lower() == "list-id" for name in own):
        return own
    name = claimed.source if _list_key(claimed) == GENERAL else _list_key(claimed)
    return {**own, "List-Id": list_id(name, sender.address, _other_tenant(claimed))}


def _feedback_id(claimed: Claimed) -> str | None:
    """Return the Feedback-ID under which mailbox providers group complaints: campaign, tenant, source, sender.

    Return None if the sender set one.
    """
    if any(name.lower() == FEEDBACK_ID for name in claimed.payload.get("headers", ())):
        return None
    return f"{claimed.payload.get('campaign', claimed.source)}:{claimed.tenant_id}:{claimed.source}:mailwright"
