"""Emails that shadow mode passed on, stored as small rows without contents and without complete addresses, and the
report about them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from sqlalchemy import func, insert, select

from mailwright.domain.clock import DAY, Instant
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.shadow import ShadowFinding
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.tables import shadow_emails

MAX_EXAMPLES: Final = 50


@dataclass(frozen=True, slots=True)
class ShadowRow:
    """One recipient of an email that was passed on."""

    tenant_id: int
    created_at: Instant
    key_digest: str | None
    body_digest: str
    recipient: str
    from_domain: str | None
    size_bytes: int
    is_accepted: bool
    relay_reply: str
    findings: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """The emails passed on since a time, the answers of the relay, and how often each finding occurred."""

    since: Instant
    passed: int
    accepted: int
    bytes: int
    last_at: Instant | None
    findings: Mapping[ShadowFinding, int]
    examples: tuple[ShadowRow, ...]  # the latest rows with findings

    @property
    def rejected(self) -> int:
        """Recipients whose email the relay did not accept."""
        return self.passed - self.accepted


async def add_rows(tx: Transaction, rows: Sequence[ShadowRow]) -> None:
    await tx.execute(insert(shadow_emails), [asdict(row) for row in rows])


async def find_digests(tx: Transaction, tenant_id: int, keys: Collection[str]) -> dict[str, str]:
    """Return the body digests of accepted emails with these keys, by key."""
    s = shadow_emails.c
    wanted = select(s.key_digest, s.body_digest).where(
        s.tenant_id == tenant_id, s.key_digest.in_(list(keys)), s.is_accepted
    )
    return {row.key_digest: row.body_digest for row in await tx.execute(wanted.order_by(s.id.desc()))}


async def count_since(tx: Transaction, tenant_id: int, since: Instant) -> int:
    """Return how many emails Mailwright would have sent since a time."""
    s = shadow_emails.c
    sent = (s.tenant_id == tenant_id, s.created_at >= since, s.is_accepted)
    unsent = [s.findings.like(f"%{each}%") for each in ("suppressed", "duplicate", "refused")]
    return int((await tx.execute(select(func.count()).where(*sent, *[~each for each in unsent])))[0][0])


async def load_report(database: Readable, tenant_id: int, now: Instant, days: int) -> ShadowReport:
    s, since = shadow_emails.c, now - days * DAY
    ours = (s.tenant_id == tenant_id, s.created_at >= since)
    totals = select(
        func.count(),
        func.count().filter(s.is_accepted),
        func.coalesce(func.sum(s.size_bytes), 0),
        func.max(s.created_at),
        *[func.count().filter(s.findings.like(f"%{each}%")) for each in ShadowFinding],
    ).where(*ours)
    columns = [column for column in shadow_emails.c if column.name != "id"]
    latest = select(*columns).where(*ours, s.findings != "").order_by(s.id.desc()).limit(MAX_EXAMPLES)
    async with database.read() as tx:
        [found] = await tx.execute(totals)
        examples = await tx.execute(latest)
    passed, accepted, size, last_at, *counted = tuple(found)
    counts = {finding: int(count) for finding, count in zip(ShadowFinding, counted, strict=True)}
    rows = tuple(ShadowRow(**row._mapping) for row in examples)
    return ShadowReport(since, int(passed), int(accepted), int(size), last_at, counts, rows)
