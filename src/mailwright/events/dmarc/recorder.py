"""Store reports for the tenants whose domains they are about. Reports never affect sending."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from mailwright.domain import address
from mailwright.domain.clock import DAY, Clock, Instant
from mailwright.domain.dmarc import DmarcReport, DmarcRow, NotCompared, RefusedReport, receivers_of
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sender_domains import is_same_or_below
from mailwright.domain.sender_policy import SenderPolicy
from mailwright.events.dmarc.parse import parse_file
from mailwright.events.dmarc.report_email import ReportEmail, parse_report_email
from mailwright.events.dmarc.unpack import looks_like_report
from mailwright.outbox.dmarc_reports import DomainRows, add_refusals, insert_report
from mailwright.outbox.sender_domains import SenderDirectory, list_domains
from mailwright.outbox.sent_counts import count_sent
from mailwright.storage.database import Database

# Messages keep their sender at least this long, because it is the shortest retention period of bodies.
COMPARED_FOR: Final = 7 * DAY


class ImportOutcome(StrEnum):
    STORED = "stored"
    REPEATED = "repeated"  # already stored
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportedReport:
    """The result for a report. `reason` is a sentence if it was refused, or if rows could not be read."""

    outcome: ImportOutcome
    reporter: str
    report_id: str
    domain: str
    name: str = ""
    reason: str | None = None
    skipped_rows: int = 0


class DmarcRecorder:
    def __init__(
        self, database: Database, clock: Clock, directory: SenderDirectory, *, selector: str | None = None
    ) -> None:
        """`selector` is the DKIM selector of the domains in the settings."""
        self._database = database
        self._clock = clock
        self._directory = directory
        self._selectors = frozenset([selector.lower()]) if selector else frozenset[str]()

    async def find_in_email(self, content: bytes) -> ReportEmail | None:
        """Parse an email of the mailbox in a thread; None if it has no aggregate report."""
        return await asyncio.to_thread(parse_report_email, content, self._clock.now())

    async def record_email(self, email: ReportEmail) -> list[ImportedReport]:
        """Store the reports of an email for the tenants that they are about, and record why others were refused."""
        return [await self._record(each, None, email.sender) for each in email.results]

    async def import_file(self, tenant_id: int, content: bytes, name: str = "") -> list[ImportedReport]:
        """Store the reports of a file, or of a saved email, for one tenant."""
        results = await asyncio.to_thread(_parse_upload, content, self._clock.now(), name)
        return [await self._record(each, tenant_id) for each in results]

    async def _record(
        self, result: DmarcReport | RefusedReport, tenant_id: int | None, sender: str = ""
    ) -> ImportedReport:
        policy = await self._directory.current()
        if isinstance(result, RefusedReport):
            return await self._refuse(replace(result, reporter=result.reporter or sender), policy, tenant_id)
        parts = _parts(result, policy, tenant_id)
        if not parts:
            reason = f"{result.domain} is not a verified sender domain{' of this tenant' if tenant_id else ''}."
            return await self._refuse(
                RefusedReport(reason, reporter=result.reporter, domain=result.domain), policy, tenant_id
            )
        complete = [await self._complete(result, part, policy) for part in parts]
        now = self._clock.now()
        async with self._database.write() as tx:
            stored = [await insert_report(tx, result, part, now) for part in complete]
        named = (result.reporter, result.report_id, result.domain)
        if not any(stored):
            return ImportedReport(ImportOutcome.REPEATED, *named)
        return ImportedReport(
            ImportOutcome.STORED, *named, reason=result.skipped_text, skipped_rows=result.skipped_rows
        )

    async def _refuse(self, refused: RefusedReport, policy: SenderPolicy, tenant_id: int | None) -> ImportedReport:
        """Record the refusal of a report that came by email. A tenant sees it if the report is about its domain."""
        if tenant_id is None:
            home = policy.home_of(refused.domain) if refused.domain else None
            async with self._database.write() as tx:
                await add_refusals(tx, [(home[0] if home else None, refused)], self._clock.now())
        return ImportedReport(ImportOutcome.REFUSED, refused.reporter, "", refused.domain, refused.name, refused.reason)

    async def _complete(self, report: DmarcReport, part: DomainRows, policy: SenderPolicy) -> DomainRows:
        """Add the selectors of the domain, and the number of its messages that were sent to the reporter in the
        report's period.
        """
        receivers = receivers_of(report)
        async with self._database.read() as tx:
            own = [each for each in await list_domains(tx, part.tenant_id) if each.domain == part.domain]
            selectors = frozenset(key.selector.lower() for each in own for key in each.keys) | self._selectors
            if (reason := self._why_not_compared(report, receivers)) is not None:
                return replace(part, selectors=selectors, not_compared=reason)
            counts = await count_sent(tx, part.tenant_id, receivers, report.begins_at, report.ends_at)
        default = address.domain_of(address.split_mailbox(policy.default_sender(part.tenant_id))[1])
        sent = sum(count for domain, count in counts.items() if is_same_or_below(domain or default, part.domain))
        return replace(part, selectors=selectors, sent=sent)

    def _why_not_compared(self, report: DmarcReport, receivers: Sequence[str]) -> NotCompared | None:
        if not receivers:
            return NotCompared.RECEIVERS_UNKNOWN
        if report.begins_at == report.ends_at:
            return NotCompared.PERIOD_UNKNOWN
        return NotCompared.TOO_OLD if report.begins_at < self._clock.now() - COMPARED_FOR else None


def _parts(report: DmarcReport, policy: SenderPolicy, tenant_id: int | None) -> list[DomainRows]:
    """Split the rows by the tenant and the domain that their From addresses belong to.

    Leave out rows whose From domain belongs to no tenant or is not covered by the policy of the report.
    """
    rows: dict[tuple[int, str], list[DmarcRow]] = {}
    if (home := policy.home_of(report.domain)) is not None:
        rows[home] = []
    for row in report.rows:
        if not is_same_or_below(row.header_from, report.domain):
            continue
        if (home := policy.home_of(row.header_from)) is not None:
            rows.setdefault(home, []).append(row)
    return [
        DomainRows(owner, domain, found)
        for (owner, domain), found in rows.items()
        if tenant_id is None or owner == tenant_id
    ]


def _parse_upload(content: bytes, now: Instant, name: str) -> Sequence[DmarcReport | RefusedReport]:
    if looks_like_report(content):
        return parse_file(content, now, name)
    email = parse_report_email(content, now)
    if email is not None:
        return email.results
    return [RefusedReport("The file is neither a report (XML, gzip or zip) nor an email with one.", name)]
