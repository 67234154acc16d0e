"""Judge the emails that shadow mode passed on, and record small rows about them.

At that time, the client already has its reply. If the database is slow or unavailable, no email is delayed or refused:
rows that do not fit in the queue are dropped, and the log states their number.
"""

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final

from mailwright.access.api_keys import Caller
from mailwright.audience.suppressions import suppressed_among
from mailwright.content.headers import Mailbox
from mailwright.content.raw import RawEmail, parse_raw
from mailwright.domain import address
from mailwright.domain.clock import DAY, HOUR, Clock, Instant
from mailwright.domain.errors import MailwrightError
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import raw_dedupe_key
from mailwright.domain.permits import Limits
from mailwright.domain.sender_domains import SenderDomains
from mailwright.domain.shadow import ShadowFinding
from mailwright.ops.logs import logger
from mailwright.outbox.limits import load_tenant_limits
from mailwright.outbox.shadow import ShadowRow, add_rows, count_since, find_digests
from mailwright.policies.rates import windows
from mailwright.sources.api.provider_headers import read_provider_headers
from mailwright.sources.api.senders import require_senders
from mailwright.storage.database import Database, Transaction

log = logger(__name__)

MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
MAX_BATCH: Final = 200
MAX_DETAIL: Final = 300

_DKIM_DOMAIN: Final = re.compile(r"(?:^|;)\s*d\s*=\s*([^;\s]+)")
_LIST: Final = "x-mailwright-list"
_SEND_AT: Final = "x-mailwright-send-at"
_KEY: Final = "x-mailwright-idempotency-key"


@dataclass(frozen=True, slots=True)
class PassedEmail:
    """An email that was passed on, with the relay's answer to it."""

    caller: Caller
    sender: str
    recipients: tuple[str, ...]
    content: bytes
    reply: bytes

    @property
    def is_accepted(self) -> bool:
        return self.reply.startswith(b"2")


@dataclass(frozen=True, slots=True)
class _Judged:
    """An email with the findings that all its recipients share."""

    email: PassedEmail
    rows: tuple[ShadowRow, ...]
    addresses: tuple[str, ...]
    list_key: str | None


class ShadowRecorder:
    def __init__(self, database: Database, clock: Clock, domains: SenderDomains, limits: Limits) -> None:
        """`domains` are the installation's own. `limits` apply to tenants that have no limits."""
        self._database = database
        self._clock = clock
        self._domains = domains
        self._limits = limits
        self._waiting: list[tuple[PassedEmail, Instant]] = []
        self._waiting_bytes = 0
        self._dropped = 0
        self._task: asyncio.Task[None] | None = None

    def record(self, email: PassedEmail) -> None:
        """Judge and store an email in the background."""
        if len(self._waiting) >= MAX_WAITING or self._waiting_bytes > MAX_WAITING_BYTES:
            self._dropped += 1
            return
        self._waiting.append((email, self._clock.now()))
        self._waiting_bytes += len(email.content)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._store_waiting())

    async def close(self) -> None:
        """Store the waiting rows."""
        if self._task is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _store_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            self._waiting_bytes -= sum(len(email.content) for email, _ in batch)
            try:
                await self._store([self._judge(email, at) for email, at in batch])
            except Exception as error:
                self._dropped += len(batch)
                log.warning("shadow_rows_not_stored", emails=len(batch), reason=repr(error))
            if self._dropped:
                log.warning("shadow_rows_dropped", emails=self._dropped)
                self._dropped = 0

    async def _store(self, judged: Sequence[_Judged]) -> None:
        limits = await load_tenant_limits(self._database, self._limits)
        async with self._database.write() as tx:
            for each in judged:
                rows = [row async for row in _judge_recipients(tx, each, limits.get(each.email.caller.tenant_id))]
                await add_rows(tx, rows)

    def _judge(self, email: PassedEmail, at: Instant) -> _Judged:
        """Return the rows of an email with the findings that need no database."""
        findings: dict[ShadowFinding, str] = {}
        parsed: RawEmail | None = None
        author: Mailbox | None = None
        try:
            parsed = parse_raw(email.content)
            author = parsed.sender
            read_provider_headers(parsed.provider_options)
            bounces_to = [Mailbox(email.sender, None)] if email.sender else []
            if email.caller.senders is not None:
                require_senders(email.caller, [*parsed.all_senders, *bounces_to])
        except (MailwrightError, address.InvalidAddress) as error:
            findings[ShadowFinding.REFUSED] = str(error)
        if parsed is not None and author is not None:
            findings |= self._misaligned(parsed, author, email.sender)
            if (send_at := parsed.first(_SEND_AT)) is not None:
                findings[ShadowFinding.DEFERRED] = f"send time {send_at}"
        key = (parsed.first(_KEY) or parsed.identity) if parsed is not None else None
        body = parsed.untraced if parsed is not None else email.content
        row = ShadowRow(
            email.caller.tenant_id,
            at,
            None,
            hashlib.sha256(body).hexdigest(),
            "",
            address.domain_of(author.address) if author is not None else None,
            len(email.content),
            email.is_accepted,
            _readable(email.reply),
            " ".join(findings),
            "; ".join(findings.values())[:MAX_DETAIL],
        )
        known = [_normal(recipient) for recipient in email.recipients]
        rows = tuple(
            replace(row, recipient=address.mask(recipient), key_digest=_key_digest(key, recipient))
            for recipient in known
        )
        return _Judged(email, rows, tuple(known), parsed.first(_LIST) if parsed is not None else None)

    def _misaligned(self, email: RawEmail, author: Mailbox, sender: str) -> dict[ShadowFinding, str]:
        """Compare the domain of From with the return path, the DKIM signatures and the installation's domains."""
        domain = address.domain_of(author.address)
        signed = [found[1] for value in email.values("dkim-signature") if (found := _DKIM_DOMAIN.search(value))]
        own = SenderDomains([domain])
        return_path = address.domain_of(sender)
        if not self._domains.covers(domain):
            detail = f"From domain {domain} is not one of MAILWRIGHT_SENDER_DOMAINS"
        elif not any(own.covers(each) for each in (return_path, *signed) if each):
            detail = f"From {domain}, return path {return_path or 'empty'}, DKIM {', '.join(signed) or 'none'}"
        else:
            return {}
        return {ShadowFinding.MISALIGNED: detail}


async def _judge_recipients(tx: Transaction, judged: _Judged, limits: Limits | None) -> AsyncIterator[ShadowRow]:
    """Yield the rows with the findings of each recipient."""
    caller = judged.email.caller
    suppressed = await suppressed_among(tx, caller.tenant_id, judged.addresses, judged.list_key)
    keys = [row.key_digest for row in judged.rows if row.key_digest is not None]
    earlier = await find_digests(tx, caller.tenant_id, keys) if keys else {}
    for row, recipient in zip(judged.rows, judged.addresses, strict=True):
        found: dict[ShadowFinding, str] = {}
        if row.key_digest in earlier:
            if earlier[row.key_digest] == row.body_digest:
                found[ShadowFinding.DUPLICATE] = "the same email was accepted before"
            else:
                found[ShadowFinding.REFUSED] = "the Message-ID was used for a different email"
        if recipient in suppressed:
            found[ShadowFinding.SUPPRESSED] = "the recipient is suppressed"
        is_sent = not found and ShadowFinding.REFUSED not in row.findings.split()
        if is_sent and limits is not None and (reason := await _used_up(tx, caller.tenant_id, limits, row.created_at)):
            found[ShadowFinding.DEFERRED] = reason
        findings = " ".join(dict.fromkeys([*row.findings.split(), *found]))
        detail = "; ".join(filter(None, (row.detail, *found.values())))[:MAX_DETAIL]
        yield replace(row, findings=findings, detail=detail)


async def _used_up(tx: Transaction, tenant_id: int, limits: Limits, now: Instant) -> str | None:
    """Return the limit that earlier emails have used up."""
    for window in windows(limits, tenant_id, now):
        since = now - HOUR if window.reason == "rate_per_hour" else window.ends_at - DAY
        limit = window.limit + window.reserved
        if await count_since(tx, tenant_id, since) >= limit:
            return f"{window.reason} of {limit}"
    return None


def _key_digest(key: str | None, recipient: str) -> str | None:
    return hashlib.sha256(raw_dedupe_key(key, recipient).encode()).hexdigest() if key else None


def _normal(recipient: str) -> str:
    try:
        return address.normal(recipient)
    except address.InvalidAddress:
        return recipient.lower()


def _readable(reply: bytes) -> str:
    return " ".join(reply.decode("latin-1").split())[:200]
