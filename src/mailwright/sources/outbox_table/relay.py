"""Accept the rows of an application's outbox table.

A row is accepted with its idempotency key and marked afterwards. If the process is killed in between, the row is
accepted again with the same key, which returns the first message. So no row is lost or sent twice, and several
processes can relay one table. A row that waited is validated as of the time at which it was written.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, Final

import orjson
from sqlalchemy import func, select, update

from mailwright.access.api_keys import Caller
from mailwright.access.roles import Scope
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import IdempotencyConflict, NotDurable, NotPossibleNow
from mailwright.domain.ids import uuid7
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Accepted, NewMessage
from mailwright.domain.schedule import parse_time
from mailwright.ops.logs import logger
from mailwright.outbox.accept import Acceptor
from mailwright.outbox.pending_erasures import ErasurePending
from mailwright.outbox.tenants import Tenant
from mailwright.sources.api.messages import ApiMessages, RejectedItem, RequestContext, digest_json
from mailwright.sources.failing_rows import FailingRows
from mailwright.storage.database import Database
from mailwright.storage.outbox_table import RowStatus, as_bytes, outbox_rows

log = logger(__name__)

BATCH_ROWS: Final = 200
# Maximum size of one row, as for a request to the API, and of the rows that are read at once.
MAX_ROW_BYTES: Final = 16 * 1024 * 1024
MAX_BATCH_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A pending row. The email is None if it is too large to be read.

    An application that created the table itself may allow NULL, which is read as empty.
    """

    id: int
    key: bytes
    email: bytes | None
    written_at: Instant

    @property
    def dedupe_key(self) -> str:
        return f"api:outbox:{hashlib.sha256(self.key).hexdigest()[:40]}"


@dataclass(frozen=True, slots=True)
class RowResult:
    row_id: int
    outbox_id: str | None = None
    error: str | None = None  # JSON with code, field and message

    @property
    def values(self) -> dict[str, Any]:
        status = RowStatus.ACCEPTED if self.error is None else RowStatus.REFUSED
        return {"status": status.value, "outbox_id": self.outbox_id, "error": self.error}


class OutboxRelay:
    def __init__(
        self, theirs: Database, clock: Clock, api_messages: ApiMessages, acceptor: Acceptor, tenant: Tenant
    ) -> None:
        """`theirs` is the application's database; the tenant owns the messages."""
        self._theirs = theirs
        self._clock = clock
        self._api_messages = api_messages
        self._acceptor = acceptor
        self._caller = Caller(tenant.id, tenant.name, frozenset({Scope.SEND}), key_name="outbox")
        self._failing = FailingRows("outbox_row_failed")

    async def relay(self) -> int:
        """Accept a batch of pending rows, and return how many were marked."""
        rows = await self._read()
        if not rows:
            return 0
        results = await self._accept(rows)
        return await self._mark(results)

    async def _read(self) -> list[OutboxRow]:
        r, now = outbox_rows.c, self._clock.now()
        content, key, written_at = (
            as_bytes(each, self._theirs.dialect) for each in (r.email, r.idempotency_key, r.created_at)
        )
        size = func.coalesce(func.length(content), 0)
        pending = select(r.id, size.label("size")).where(r.status == RowStatus.PENDING.value)
        async with self._theirs.read() as tx:
            found = await tx.execute(pending.order_by(r.id).limit(BATCH_ROWS + self._failing.count(now)))
            sizes = {row.id: row.size for row in found if not self._failing.contains(str(row.id), now)}
            wanted = _first_within(sizes, MAX_BATCH_BYTES)
            readable = [row_id for row_id in wanted if sizes[row_id] <= MAX_ROW_BYTES]
            contents = await tx.execute(select(r.id, content.label("email")).where(r.id.in_(readable)))
            known = select(r.id, key.label("key"), written_at.label("written_at"))
            found = await tx.execute(known.where(r.id.in_(wanted)).order_by(r.id))
        emails = {row.id: row.email or b"" for row in contents}
        return [
            OutboxRow(row.id, row.key or b"", emails.get(row.id), _written_at(row.written_at, now)) for row in found
        ]

    async def _accept(self, rows: Sequence[OutboxRow]) -> list[RowResult]:
        context = RequestContext(self._caller, uuid7(self._clock.now()))
        bodies = [_body(row) for row in rows]
        parsed = [(row, body) for row, body in zip(rows, bodies, strict=True) if not isinstance(body, RejectedItem)]
        prepared = iter(
            await self._api_messages.prepare(
                context, [body for _, body in parsed], [row.written_at for row, _ in parsed]
            )
        )
        messages = [
            each if isinstance(each, RejectedItem) else _keyed(next(prepared), row, each)
            for row, each in zip(rows, bodies, strict=True)
        ]
        messages = await self._refuse_unapproved(context, messages)
        accepted = iter(await self._acceptor.accept([each for each in messages if isinstance(each, NewMessage)]))
        refused = {
            row.dedupe_key: digest_json(body)
            for row, body, each in zip(rows, bodies, messages, strict=True)
            if isinstance(each, RejectedItem) and not isinstance(body, RejectedItem)
        }
        # A row that was accepted and not marked can be invalid by now, for example because its template was deleted.
        earlier = await self._acceptor.find_accepted(self._caller.tenant_id, refused)
        return [
            RowResult(row.id, outbox_id=earlier[row.dedupe_key].outbox_id)
            if row.dedupe_key in earlier
            else _result(row, each if isinstance(each, RejectedItem) else next(accepted))
            for row, each in zip(rows, messages, strict=True)
        ]

    async def _refuse_unapproved(
        self, context: RequestContext, messages: Sequence[NewMessage | RejectedItem]
    ) -> list[NewMessage | RejectedItem]:
        try:
            return await self._api_messages.refuse_unapproved(context, messages)
        except NotPossibleNow as error:  # It concerns all valid rows.
            refused = RejectedItem(error.code, str(error), "listKey")
            return [refused if isinstance(each, NewMessage) else each for each in messages]

    async def _mark(self, results: Sequence[RowResult]) -> int:
        """Mark rows in one transaction, each one alone if the database refuses them together; return their number."""
        try:
            await self._write(results)
        except NotDurable:
            raise
        except Exception as error:
            if len(results) == 1:
                self._failing.add(str(results[0].row_id), self._clock.now(), results[0].row_id, error)
                return 0
            return sum([await self._mark([result]) for result in results])
        return len(results)

    async def _write(self, results: Sequence[RowResult]) -> None:
        r = outbox_rows.c
        async with self._theirs.write() as tx:
            for result in results:
                await tx.execute(update(outbox_rows).where(r.id == result.row_id).values(**result.values))


def _first_within(sizes: dict[int, int], max_bytes: int) -> list[int]:
    """Return the first rows that fit together, at least one. A row that is too large is not read and has no size."""
    wanted: list[int] = []
    total = 0
    for row_id, size in sizes.items():
        total += size if size <= MAX_ROW_BYTES else 0
        if wanted and total > max_bytes:
            break
        wanted.append(row_id)
    return wanted


def _written_at(text: bytes | None, now: Instant) -> Instant:
    """Return when a row was written.

    If an application has written no valid time in the past, return the current time.
    """
    try:
        return min(parse_time((text or b"").decode(), UTC), now)
    except (ValueError, OverflowError):
        return now


def _body(row: OutboxRow) -> Any:
    """Return the parsed email of a row, or why it is not a valid email."""
    if not row.key:
        return RejectedItem("REQUIRED", "is empty, so a repeated row could not be recognised", "idempotency_key")
    if row.email is None:
        return RejectedItem("TOO_LARGE", f"is larger than {MAX_ROW_BYTES // 1024**2} MB", "email")
    try:
        return orjson.loads(row.email)
    except orjson.JSONDecodeError as error:
        return RejectedItem("INVALID_JSON", f"is not valid JSON: {error}", "email")


def _keyed(message: NewMessage | RejectedItem, row: OutboxRow, body: Any) -> NewMessage | RejectedItem:
    if isinstance(message, RejectedItem):
        return message
    return replace(message, dedupe_key=row.dedupe_key, body_digest=digest_json(body))


def _result(row: OutboxRow, outcome: Accepted | RejectedItem) -> RowResult:
    if isinstance(outcome, Accepted) and outcome.is_conflict:
        outcome = RejectedItem(IdempotencyConflict.code, "was already used for a different email", "idempotency_key")
    if isinstance(outcome, Accepted) and outcome.is_erasing:
        outcome = RejectedItem(ErasurePending.code, str(ErasurePending()), "to")
    if isinstance(outcome, Accepted):
        return RowResult(row.id, outbox_id=outcome.outbox_id)
    log.warning("outbox_row_refused", row=row.id, code=outcome.code, field=outcome.field)
    error = {"code": outcome.code, "field": outcome.field, "message": outcome.detail}
    return RowResult(row.id, error=orjson.dumps(error).decode())
