"""Stored DMARC aggregate reports, and their summary for each domain."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, delete, distinct, func, insert, or_, select

from mailwright.domain.address import readable
from mailwright.domain.clock import DAY, Instant
from mailwright.domain.dmarc import (
    Disposition,
    DmarcReport,
    DmarcRow,
    NotCompared,
    PolicyAdvice,
    PolicyEvidence,
    RefusedReport,
    ReporterComparison,
    suggest_policy,
)
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.storage.database import Readable, Transaction
from mailwright.storage.statements import statement
from mailwright.storage.tables import dmarc_refusals, dmarc_reports, dmarc_sources

INSERT_REPORT: Final = statement(__package__, "insert_dmarc_report")

DEFAULT_DAYS: Final = 30
MAX_DAYS: Final = 366
MAX_SOURCES: Final = 100
# The maximum number of refused reports that are kept for display. Anyone can send any number of them.
MAX_REFUSALS: Final = 200
_ROWS_PER_INSERT: Final = 500


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """The results at receivers for one source address. `signed`: messages that were signed with keys of Mailwright."""

    source_ip: str
    header_from: str
    messages: int
    aligned: int
    dkim: int
    spf: int
    signed: int
    quarantined: int
    rejected: int
    results: str


@dataclass(frozen=True, slots=True)
class DayTotals:
    begins_at: Instant
    messages: int
    aligned: int


@dataclass(frozen=True, slots=True)
class DomainTotals:
    domain: str
    reports: int
    reporters: int
    messages: int
    aligned: int
    last_at: Instant | None

    @property
    def failing(self) -> int:
        return self.messages - self.aligned

    @property
    def unicode_domain(self) -> str:
        return readable(self.domain)


@dataclass(frozen=True, slots=True)
class RefusedReportRecord:
    received_at: Instant
    reporter: str
    domain: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DomainReport:
    """The reports about a domain since a time."""

    totals: DomainTotals
    since: Instant
    policy: str | None  # of the newest report
    advice: PolicyAdvice
    reporters: tuple[ReporterComparison, ...]
    sources: tuple[SourceTotals, ...]  # the largest ones
    source_count: int
    days: tuple[DayTotals, ...]  # every day of the period
    skipped_rows: int


@dataclass(frozen=True, slots=True)
class DomainRows:
    """The part of a report that is about a domain of a tenant, and the number of messages sent in the same time."""

    tenant_id: int
    domain: str
    rows: Sequence[DmarcRow]
    selectors: frozenset[str] = frozenset()
    sent: int | None = None
    not_compared: NotCompared | None = None


async def insert_report(tx: Transaction, report: DmarcReport, part: DomainRows, now: Instant) -> bool:
    """Store the part of a report. Return False if it is already stored."""
    found = await tx.run(
        INSERT_REPORT,
        tenant_id=part.tenant_id,
        domain=part.domain,
        policy_domain=report.domain,
        reporter=report.reporter,
        report_id=report.report_id,
        begins_at=report.begins_at,
        ends_at=report.ends_at,
        policy=report.policy,
        is_partial=report.is_partial,
        messages=sum(row.messages for row in part.rows),
        aligned=sum(row.messages for row in part.rows if row.is_aligned),
        skipped_rows=report.skipped_rows,
        sent=part.sent,
        not_compared=part.not_compared,
        received_at=now,
    )
    if not found:
        return False
    sources = _source_rows(part, int(found[0].id))
    for start in range(0, len(sources), _ROWS_PER_INSERT):
        await tx.execute(insert(dmarc_sources), sources[start : start + _ROWS_PER_INSERT])
    return True


def _source_rows(part: DomainRows, report_key: int) -> list[dict[str, Any]]:
    """Return the rows to store. Rows that differ only in values that are not stored become one."""
    counts: dict[tuple[Any, ...], int] = {}
    for row in part.rows:
        signatures = [f"DKIM {each.result} {each.domain} {each.selector}".strip() for each in row.dkim_results]
        results = "; ".join([*signatures, *([f"SPF {row.spf_result}"] if row.spf_result else []), *row.reasons])
        is_signed = row.is_signed_by(part.selectors)
        key = (row.source_ip, row.header_from, row.disposition.value, row.dkim, row.spf, is_signed, results[:500])
        counts[key] = counts.get(key, 0) + row.messages
    names = ("source_ip", "header_from", "disposition", "dkim", "spf", "is_signed", "results")
    return [
        {"report_key": report_key, **dict(zip(names, key, strict=True)), "messages": count}
        for key, count in counts.items()
    ]


async def add_refusals(tx: Transaction, refused: Sequence[tuple[int | None, RefusedReport]], now: Instant) -> None:
    """Store why reports were refused. If there are too many, delete the oldest."""
    r = dmarc_refusals.c
    for tenant_id, each in refused:
        values = {"tenant_id": tenant_id, "domain": each.domain, "reporter": each.reporter, "name": each.name}
        await tx.execute(insert(dmarc_refusals).values(**values, reason=each.reason, received_at=now))
    for tenant_id in {tenant_id for tenant_id, _ in refused}:
        own = r.tenant_id.is_(None) if tenant_id is None else r.tenant_id == tenant_id
        kept = select(r.id).where(own).order_by(r.id.desc()).limit(MAX_REFUSALS)
        await tx.execute(delete(dmarc_refusals).where(own, r.id.not_in(kept)))


async def list_refusals(
    database: Readable, tenant_id: int, *, domain: str | None = None, with_unowned: bool = False
) -> list[RefusedReportRecord]:
    """List refused reports of a tenant, latest first. Optionally include reports about domains that no tenant has."""
    r = dmarc_refusals.c
    own = r.tenant_id == tenant_id
    if domain is not None:
        own = and_(own, or_(r.domain == domain, r.domain.like(f"%.{domain}")))
    wanted = or_(own, r.tenant_id.is_(None)) if with_unowned else own
    query = select(r.received_at, r.reporter, r.domain, r.name, r.reason).where(wanted)
    async with database.read() as tx:
        rows = await tx.execute(query.order_by(r.id.desc()).limit(MAX_REFUSALS))
    return [RefusedReportRecord(**row._mapping) for row in rows]


async def list_totals(database: Readable, tenant_id: int, since: Instant) -> list[DomainTotals]:
    """List the domains with reports since a time, by name."""
    d = dmarc_reports.c
    query = _totals().where(d.tenant_id == tenant_id, d.ends_at >= since).group_by(d.domain).order_by(d.domain)
    async with database.read() as tx:
        return [_domain_totals(row) for row in await tx.execute(query)]


async def load_domain_report(
    database: Readable, tenant_id: int, domain: str, now: Instant, days: int = DEFAULT_DAYS
) -> DomainReport:
    today = now - now % DAY
    since = today - (days - 1) * DAY
    d = dmarc_reports.c
    ours = (d.tenant_id == tenant_id, d.domain == domain, d.ends_at >= since)
    async with database.read() as tx:
        found = await tx.execute(_totals().where(*ours).group_by(d.domain))
        totals = _domain_totals(found[0]) if found else DomainTotals(domain, 0, 0, 0, 0, None)
        by_day = await _load_days(tx, ours)
        policies = await tx.execute(select(d.policy, d.is_partial).where(*ours).order_by(d.ends_at.desc(), d.id.desc()))
        reporters = await _load_reporters(tx, ours)
        sources, count = await _load_sources(tx, ours)
        [skipped] = await tx.execute(select(func.coalesce(func.sum(d.skipped_rows), 0)).where(*ours))
    policy = policies[0].policy if policies else None
    evidence = PolicyEvidence(
        policy,
        frozenset(row.policy for row in policies),
        any(row.is_partial for row in policies),
        len(by_day),
        totals.reporters,
        totals.messages,
        totals.failing,
    )
    # A report that covers several days, or began before the period, counts on its first day in the period.
    first = min([since, *by_day])
    every = tuple(by_day.get(day) or DayTotals(day, 0, 0) for day in range(first, today + DAY, DAY))
    return DomainReport(
        totals, since, policy, suggest_policy(evidence), reporters, sources, count, every, int(skipped[0])
    )


def _totals() -> Any:
    d = dmarc_reports.c
    return select(
        d.domain,
        func.count().label("reports"),
        func.count(distinct(d.reporter)).label("reporters"),
        func.sum(d.messages).label("messages"),
        func.sum(d.aligned).label("aligned"),
        func.max(d.ends_at).label("last_at"),
    )


def _domain_totals(row: Any) -> DomainTotals:
    return DomainTotals(row.domain, row.reports, row.reporters, int(row.messages), int(row.aligned), int(row.last_at))


async def _load_days(tx: Transaction, ours: Sequence[ColumnElement[bool]]) -> dict[Instant, DayTotals]:
    d = dmarc_reports.c
    day = d.begins_at - d.begins_at % DAY
    query = select(day.label("day"), func.sum(d.messages).label("messages"), func.sum(d.aligned).label("aligned"))
    rows = await tx.execute(query.where(*ours).group_by(day))
    return {int(row.day): DayTotals(int(row.day), int(row.messages), int(row.aligned)) for row in rows}


async def _load_reporters(tx: Transaction, ours: Sequence[ColumnElement[bool]]) -> tuple[ReporterComparison, ...]:
    d, s = dmarc_reports.c, dmarc_sources.c
    compared = d.sent.is_not(None)
    query = select(
        d.reporter,
        func.count().label("reports"),
        func.sum(d.messages).label("messages"),
        func.sum(d.aligned).label("aligned"),
        func.sum(case((compared, d.aligned), else_=0)).label("compared"),
        func.sum(d.sent).label("sent"),
        func.max(d.not_compared).label("not_compared"),
        func.max(d.ends_at).label("last_at"),
    )
    rows = await tx.execute(query.where(*ours).group_by(d.reporter).order_by(func.sum(d.messages).desc(), d.reporter))
    is_foreign = and_(compared, or_(s.dkim, s.spf), s.is_signed.is_(False))
    foreign = select(d.reporter, func.sum(s.messages).label("messages")).select_from(
        dmarc_reports.join(dmarc_sources, s.report_key == d.id)
    )
    unsigned = {
        row.reporter: int(row.messages)
        for row in await tx.execute(foreign.where(*ours, is_foreign).group_by(d.reporter))
    }
    return tuple(
        ReporterComparison(
            row.reporter,
            row.reports,
            int(row.messages),
            int(row.aligned),
            int(row.last_at),
            None if row.sent is None else int(row.sent),
            int(row.compared),
            unsigned.get(row.reporter, 0),
            NotCompared(row.not_compared) if row.not_compared else None,
        )
        for row in rows
    )


async def _load_sources(tx: Transaction, ours: Sequence[ColumnElement[bool]]) -> tuple[tuple[SourceTotals, ...], int]:
    """Load the largest sources, and the number of all."""
    d, s = dmarc_reports.c, dmarc_sources.c
    joined = dmarc_reports.join(dmarc_sources, s.report_key == d.id)

    def total(condition: ColumnElement[bool]) -> ColumnElement[int]:
        return func.sum(case((condition, s.messages), else_=0))

    query = (
        select(
            s.source_ip,
            func.max(s.header_from).label("header_from"),
            func.sum(s.messages).label("messages"),
            total(or_(s.dkim, s.spf)).label("aligned"),
            total(s.dkim).label("dkim"),
            total(s.spf).label("spf"),
            total(s.is_signed).label("signed"),
            total(s.disposition == Disposition.QUARANTINE).label("quarantined"),
            total(s.disposition == Disposition.REJECT).label("rejected"),
            func.max(s.results).label("results"),
        )
        .select_from(joined)
        .where(*ours)
        .group_by(s.source_ip)
        .order_by(func.sum(s.messages).desc(), s.source_ip)
        .limit(MAX_SOURCES)
    )
    rows = await tx.execute(query)
    [count] = await tx.execute(select(func.count(distinct(s.source_ip))).select_from(joined).where(*ours))
    texts = ("source_ip", "header_from", "results")
    found: list[dict[str, Any]] = [
        {name: value if name in texts else int(value) for name, value in row._mapping.items()} for row in rows
    ]
    return tuple(SourceTotals(**each) for each in found), int(count[0])
