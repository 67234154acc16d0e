"""List the recipients of a campaign whose message failed or is in doubt, page by page."""

from typing import Any

from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Transaction
from mailwright.storage.statements import statement

LIST_FAILED = statement(__package__, "list_failed")
LIST_IN_DOUBT = statement(__package__, "list_in_doubt")


@dataclass(frozen=True, slots=True)
class FailedRecipient:
    message_key: int
    email: str
    outbox_id: str
    error_code: str | None
    error_reason: str | None
    attempts: int
    failed_at: Instant | None  # For a message in doubt: since when it is in doubt.


async def list_failed(tx: Transaction, lane: int, *, limit: int, after: int = 0) -> list[FailedRecipient]:
    """Return a page in the order of creation; `after` is the last `message_key` of the previous page."""
    return [_recipient(row) for row in await tx.run(LIST_FAILED, lane=lane, after=after, limit=limit)]


async def list_in_doubt(tx: Transaction, lane: int, *, limit: int, after: int = 0) -> list[FailedRecipient]:
    """Return a page in the order of creation; `after` is the last `message_key` of the previous page."""
    return [_recipient(row) for row in await tx.run(LIST_IN_DOUBT, lane=lane, after=after, limit=limit)]


def _recipient(row: Any) -> FailedRecipient:
    return FailedRecipient(
        row.message_key, row.to_email, row.outbox_id, row.error_code, row.error_reason, row.attempts, row.failed_at
    )
