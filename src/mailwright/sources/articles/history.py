"""List the messages of a run with their status, ordered by address, one page at a time."""

from collections.abc import Collection

from sqlalchemy import and_, select

from mailwright.domain.buckets import shown_status
from mailwright.domain.clock import Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import Source
from mailwright.domain.states import Status
from mailwright.sources.articles.runs import ArticleRun, message_location
from mailwright.storage.database import Database
from mailwright.storage.statements import statement
from mailwright.storage.tables import deliveries, messages

UNSENT_MESSAGES = statement(__package__, "unsent_messages")


@dataclass(frozen=True, slots=True)
class ArticleMessage:
    outbox_id: str
    email: str
    status: str
    attempts: int
    error_code: str | None
    error_reason: str | None
    next_attempt_at: Instant | None
    sent_at: Instant | None
    bounced_at: Instant | None

    @property
    def shown_status(self) -> str:
        """The status as shown to users."""
        return shown_status(self.status, is_bounced=self.bounced_at is not None, error_code=self.error_code)


async def list_messages(
    database: Database, run: ArticleRun, *, limit: int, after: str = "", statuses: Collection[str] = ()
) -> list[ArticleMessage]:
    """List messages after the address `after` (a run has one message per address), in at most three `statuses`."""
    if statuses and Status.SENT not in statuses:
        return await _unsent(database, run, limit, after, statuses)
    m, d = messages.c, deliveries.c
    mine = and_(m.source == Source.ARTICLE.value, m.request_id == run.run_id, m.to_email > after)
    query = (
        select(
            m.outbox_id,
            m.to_email.label("email"),
            d.status,
            d.attempts,
            d.error_code,
            d.error_reason,
            d.next_attempt_at,
            d.sent_at,
            d.bounced_at,
        )
        .join_from(messages, deliveries, d.message_key == m.id)
        .where(and_(mine, d.status.in_(list(statuses))) if statuses else mine)
        .order_by(m.to_email)
        .limit(limit)
    )
    async with database.read() as tx:
        return [ArticleMessage(**row._mapping) for row in await tx.execute(query)]


async def _unsent(
    database: Database, run: ArticleRun, limit: int, after: str, statuses: Collection[str]
) -> list[ArticleMessage]:
    """List messages by a status that few have, through an index, because a scan by address would read the whole run."""
    one, two, three = (*statuses, "", "")[:3]
    async with database.read() as tx:
        where = message_location(run)
        rows = await tx.run(UNSENT_MESSAGES, **where, one=one, two=two, three=three, email=after, limit=limit)
    return [ArticleMessage(**row._mapping) for row in rows]
