"""Store mailout runs, from the request to the last result in Notion.

A process works on a run under a lease that it renews. If it dies, another process continues after the lease expires.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, insert, select, update
from sqlalchemy.exc import IntegrityError

from mailwright.domain.clock import MINUTE, SECOND, Clock, Instant
from mailwright.domain.errors import NotDurable, NotFound
from mailwright.domain.ids import is_uuid, token, uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import english_text, lazy_gettext
from mailwright.outbox import audit_log
from mailwright.sources.mailouts.notion import notion_id
from mailwright.sources.mailouts.refusals import MailoutRefused, already_sent
from mailwright.sources.mailouts.rendering import ContentIssue
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import mailout_errors, mailouts, messages

LEASE_DURATION: Final = 2 * MINUTE
# The backoff of steps that depend on Notion or Supabase. They are retried without limit.
MIN_RETRY_DELAY: Final = 2 * SECOND
MAX_RETRY_DELAY: Final = 5 * MINUTE
MAX_REASON_LENGTH: Final = 500
# The beginning of an error's key, if it is about a message. The statement `unreported_failures` uses it too.
_FAILURE: Final = "send:"
_FREE: Final = {"leased_by": None, "leased_until": 0}
# After a test, or a rehearsal into the local mailbox, the page can be sent again.
_IS_REPEATABLE: Final = mailouts.c.is_test.is_(True) | mailouts.c.is_local


class MailoutRunStatus(StrEnum):
    ACCEPTED = "accepted"
    GATHERING = "gathering"  # The content is stored; recipients are being read.
    QUEUEING = "queueing"  # It is in the campaign queue; messages are being enqueued.
    SENDING = "sending"
    SENT = "sent"  # Every message was sent or failed; results still change.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class MailoutRun:
    key: int
    mailout_id: str
    tenant_id: int
    page_id: str
    status: MailoutRunStatus
    actor: str
    fingerprint: str | None
    is_test: bool | None
    is_local: bool
    overrides_rules: bool
    subject: str | None
    template_key: int | None
    campaign_key: int | None
    planned: int | None
    error_code: str | None
    error_message: str | None
    created_at: Instant
    finished_at: Instant | None
    figures: dict[str, Any]
    reported_at: Instant | None
    failures: int
    due_at: Instant | None
    delay_code: str | None
    delay_reason: str | None

    @property
    def template_id(self) -> str:
        return f"mailout:{self.mailout_id}"

    @property
    def delay(self) -> "RunDelay | None":
        if self.delay_code is None or self.due_at is None:
            return None
        return RunDelay(self.delay_code, self.delay_reason or "", self.failures, self.due_at)


@dataclass(frozen=True, slots=True)
class RunDelay:
    """Why a run is delayed, how often it failed in a row, and when the next attempt is."""

    code: str
    reason: str
    failures: int
    next_try_at: Instant


@dataclass(frozen=True, slots=True)
class RunError:
    """An error as a row of the Notion errors table. `key` prevents duplicates."""

    key: str
    stage: str
    code: str
    message: str
    at: Instant
    email: str | None = None
    provider: str | None = None
    retry_count: int = 0


class LeaseLost(Exception):
    """Another process works on this run now."""


class MailoutRuns:
    def __init__(self, database: Database, clock: Clock, lease_duration: Instant = LEASE_DURATION) -> None:
        """`lease_duration`: how long a process keeps a run without renewing its lease."""
        self._database = database
        self._clock = clock
        self._lease_duration = lease_duration

    async def accept(
        self,
        tenant_id: int,
        page: str,
        *,
        actor: str,
        fingerprint: str | None = None,
        overrides_rules: bool = False,
    ) -> MailoutRun:
        """Store the run durably. Any worker continues it."""
        now = self._clock.now()
        values = {
            "mailout_id": uuid7(now),
            "tenant_id": tenant_id,
            "page_id": notion_id(page),
            "actor": actor,
            "fingerprint": fingerprint,
            "overrides_rules": overrides_rules,
            "status": MailoutRunStatus.ACCEPTED,
            "created_at": now,
            "due_at": now,
            "failures": 0,
            "leased_until": 0,
        }
        async with self._database.write() as tx:
            rows = await tx.execute(insert(mailouts).values(**values).returning(mailouts))
            run = _run(rows[0])
            detail = {"page": run.page_id}
            await audit_log.record(
                tx, now, actor=actor, action="mailout.send", subject=run.mailout_id, tenant_id=tenant_id, detail=detail
            )
            if overrides_rules:
                override = "mailout.override_sender_rules"
                await audit_log.record(
                    tx, now, actor=actor, action=override, subject=run.mailout_id, tenant_id=tenant_id, detail=detail
                )
        return run

    async def find(self, mailout_id: str, *, tenant_id: int | None) -> MailoutRun:
        mine = mailouts.c.mailout_id == mailout_id
        if tenant_id is not None:
            mine &= mailouts.c.tenant_id == tenant_id
        runs = await self._select(mine, limit=1) if is_uuid(mailout_id) else []
        if not runs:
            raise NotFound("There is no run with this id.")
        return runs[0]

    async def list_runs(self, *, tenant_id: int | None, limit: int, before: int = 2**63 - 1) -> list[MailoutRun]:
        """List runs, newest first."""
        which = mailouts.c.id < before
        return await self._select(which if tenant_id is None else which & (mailouts.c.tenant_id == tenant_id), limit)

    async def list_sending(self) -> list[MailoutRun]:
        return await self._select(
            mailouts.c.due_at.is_not(None) & (mailouts.c.status == MailoutRunStatus.SENDING), limit=1_000
        )

    async def was_handled(self, page_id: str, digest: str, fingerprint: str) -> bool:
        """Return whether this version of the page was refused, tested, or sent with the same properties.

        Writing back results edits the page, so the edit time of a sent page is ignored and only the digest of its
        properties is compared. A test is repeated if the page was edited after the last write-back.
        """
        run = mailouts.c
        is_sent = run.fingerprint.startswith(digest) & (run.status != MailoutRunStatus.REFUSED)
        is_being_reported = run.reported_at.is_(None) | (run.leased_until > self._clock.now())
        is_known = (run.fingerprint == fingerprint) | (is_sent & (~_IS_REPEATABLE | is_being_reported))
        return bool(await self._select((run.page_id == page_id) & is_known, 1))

    async def forget_tests_of(self, ready: Collection[str]) -> None:
        """Allow another test of every page that is no longer ready, so that it is tested when it is ready again."""
        is_over = mailouts.c.fingerprint.is_not(None) & mailouts.c.finished_at.is_not(None) & _IS_REPEATABLE
        left = is_over & mailouts.c.page_id.not_in(ready)
        async with self._database.write() as tx:
            await tx.execute(update(mailouts).where(left).values(fingerprint=None))

    async def list_errors(self, run: MailoutRun, limit: int = 100) -> list[RunError]:
        """List the errors with the addresses of failed messages, which are deleted here once Notion has them."""
        query = select(mailout_errors).where(mailout_errors.c.mailout_key == run.key).order_by(mailout_errors.c.id)
        async with self._database.read() as tx:
            rows = await tx.execute(query.limit(limit))
            keys = {key for row in rows if row.email is None and (key := _message_key(row.key)) is not None}
            found = await tx.execute(select(messages.c.id, messages.c.to_email).where(messages.c.id.in_(keys)))
        addresses = {row.id: row.to_email for row in found}
        errors = [RunError(**{name: getattr(row, name) for name in RunError.__slots__}) for row in rows]
        return [replace(each, email=each.email or addresses.get(_message_key(each.key))) for each in errors]

    async def _select(self, which: ColumnElement[bool], limit: int) -> list[MailoutRun]:
        async with self._database.read() as tx:
            rows = await tx.execute(select(mailouts).where(which).order_by(mailouts.c.id.desc()).limit(limit))
        return [_run(row) for row in rows]

    # Leases.

    async def claim(self, run: MailoutRun | None = None) -> "RunLease | None":
        """Lease this run, or the one that has waited longest. Return None if there is none or it is leased."""
        now, name = self._clock.now(), token()
        due = [mailouts.c.due_at.is_not(None), mailouts.c.leased_until <= now]
        due.append(mailouts.c.due_at <= now if run is None else mailouts.c.id == run.key)
        first = (
            select(mailouts.c.id)
            .where(*due)
            .order_by(mailouts.c.due_at, mailouts.c.id)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        taken = (
            update(mailouts)
            .where(mailouts.c.id.in_(first))
            .values(leased_by=name, leased_until=now + self._lease_duration)
        )
        async with self._database.write() as tx:
            rows = await tx.execute(taken.returning(mailouts))
        return RunLease(self._database, self._clock, _run(rows[0]), name, self._lease_duration) if rows else None


class RunLease:
    """An exclusive, expiring right to work on a run. Every change checks it, so a process without it cannot write."""

    def __init__(self, database: Database, clock: Clock, run: MailoutRun, name: int, lease_duration: Instant) -> None:
        self._database = database
        self._clock = clock
        self._name = name
        self._lease_duration = lease_duration
        self.run = run

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renew the lease while the work runs."""
        renewing = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            renewing.cancel()
            # With `gather`, cancelling the renewal does not look like a cancellation of this task.
            await asyncio.gather(renewing, return_exceptions=True)

    async def change(self, tx: Transaction, **values: Any) -> MailoutRun:
        mine = (mailouts.c.id == self.run.key) & (mailouts.c.leased_by == self._name)
        rows = await tx.execute(update(mailouts).where(mine).values(**values).returning(mailouts))
        if not rows:
            raise LeaseLost
        self.run = _run(rows[0])
        return self.run

    async def renew(self, tx: Transaction) -> None:
        await self.change(tx, leased_until=self._clock.now() + self._lease_duration)

    async def claim_page(self) -> MailoutRun:
        """Claim the page, which is sent to the audience once. Raises if another run has claimed it."""
        try:
            async with self._database.write() as tx:
                return await self.change(tx, sent_page=self.run.page_id)
        except IntegrityError as error:
            async with self._database.read() as tx:
                rows = await tx.execute(select(mailouts).where(mailouts.c.sent_page == self.run.page_id))
            if not rows:
                raise already_sent(lazy_gettext("another run is sending it")) from error
            raise already_sent(lazy_gettext("run {run} is sending it", run=rows[0].mailout_id)) from error

    async def refuse(self, refused: MailoutRefused) -> MailoutRun:
        """End the run, and store its errors for Notion in the same transaction."""
        now = self._clock.now()
        errors = [RunError(f"refused:{each.code}", "prepare", each.code, str(each), now) for each in refused.each]
        errors += [error_of_issue(issue, now) for issue in refused.issues]
        async with self._database.write() as tx:
            await store_errors(tx, self.run.key, errors)
            return await self.change(
                tx,
                status=MailoutRunStatus.REFUSED,
                error_code=refused.code,
                error_message=str(refused),
                sent_page=None,
                finished_at=now,
                due_at=now,
                failures=0,
            )

    async def release(self, due_at: Instant | None) -> None:
        """Release the lease after a successful step."""
        with suppress(LeaseLost):
            async with self._database.write() as tx:
                await self.change(tx, due_at=due_at, failures=0, delay_code=None, delay_reason=None, **_FREE)

    async def abandon(self) -> None:
        """Release the lease in the middle of a step, which will be repeated."""
        with suppress(LeaseLost, NotDurable):
            async with self._database.write() as tx:
                await self.change(tx, **_FREE)

    async def postpone(self, code: str, reason: str, *, at_least: Instant | None = None) -> Instant:
        """Release the lease after a failure. Return the time of the next attempt."""
        pause = min(MIN_RETRY_DELAY << min(self.run.failures, 16), MAX_RETRY_DELAY)
        until = self._clock.now() + max(pause, at_least or 0)
        with suppress(LeaseLost):
            async with self._database.write() as tx:
                delay = {
                    "failures": self.run.failures + 1,
                    "delay_code": code,
                    "delay_reason": reason[:MAX_REASON_LENGTH],
                }
                await self.change(tx, due_at=until, **_FREE, **delay)
        return until

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease_duration / 4 / SECOND)
            with suppress(NotDurable, LeaseLost):  # The next renewal tries again, and every change checks the lease.
                async with self._database.write() as tx:
                    await self.renew(tx)


def failure_key(message_key: int, attempts: int) -> str:
    """Return the key of the error about a failed message."""
    return f"{_FAILURE}{message_key}:{attempts}"


def _message_key(key: str) -> int | None:
    """Return the message that an error is about, if any."""
    return int(key.removeprefix(_FAILURE).partition(":")[0]) if key.startswith(_FAILURE) else None


def error_of_issue(issue: ContentIssue, now: Instant) -> RunError:
    message = f"{issue.type} {issue.block_id}: {english_text(issue.reason)}"
    # The digest keeps several issues of one block apart.
    key = f"block:{issue.block_id}:{hashlib.sha256(message.encode()).hexdigest()[:16]}"
    return RunError(key, "render", issue.code, message, now)


async def store_errors(tx: Transaction, mailout_key: int, errors: list[RunError]) -> None:
    """Store the errors that are not stored yet."""
    known = select(mailout_errors.c.key).where(
        mailout_errors.c.mailout_key == mailout_key, mailout_errors.c.key.in_([error.key for error in errors])
    )
    stored = {row.key for row in await tx.execute(known)}
    fresh = {error.key: error for error in errors if error.key not in stored}
    rows = [
        {"mailout_key": mailout_key, "is_in_doubt": False} | {name: getattr(error, name) for name in RunError.__slots__}
        for error in fresh.values()
    ]
    if rows:
        await tx.execute(insert(mailout_errors), rows)


def _run(row: Any) -> MailoutRun:
    fields = {name: getattr(row, name) for name in MailoutRun.__slots__ if name not in ("key", "status", "figures")}
    return MailoutRun(key=row.id, status=MailoutRunStatus(row.status), figures=orjson.loads(row.figures), **fields)
