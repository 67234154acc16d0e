"""Sample DMARC reports: two receivers, a forwarder, and somebody who sends in the shop's name."""

from mailwright.app.wiring import Engine
from mailwright.domain.clock import DAY, Instant
from mailwright.domain.dmarc import Disposition, DkimResult, DmarcReport, DmarcRow, NotCompared
from mailwright.outbox.dmarc_reports import DomainRows, insert_report

DOMAIN = "example.com"
DAYS = 24
SELECTOR = "mwr5f0c9a1b"
# How many messages a receiver gets each day of the week.
_PER_DAY = {"google.com": (420, 388, 512, 1_240, 455, 160, 122), "Outlook.com": (96, 84, 131, 310, 102, 38, 29)}


async def load_dmarc_reports(engine: Engine, tenant_id: int) -> None:
    """Store the reports of the last weeks."""
    now = engine.clock.now()
    today = now - now % DAY
    async with engine.database.write() as tx:
        for number in range(1, DAYS + 1):
            for reporter, counts in _PER_DAY.items():
                sent = counts[number % 7]
                report = _report(reporter, today - number * DAY, sent, number)
                is_compared = number < 7
                part = DomainRows(
                    tenant_id,
                    DOMAIN,
                    report.rows,
                    frozenset([SELECTOR]),
                    sent if is_compared else None,
                    None if is_compared else NotCompared.TOO_OLD,
                )
                await insert_report(tx, report, part, report.ends_at + DAY // 4)


def _report(reporter: str, begins_at: Instant, sent: int, number: int) -> DmarcReport:
    ours = DkimResult(DOMAIN, SELECTOR, "pass")
    rows = [DmarcRow("198.51.100.24", sent, Disposition.NONE, True, True, DOMAIN, None, (ours,), "pass")]
    if number % 3 == 0:
        rows.append(
            DmarcRow("2001:db8:8::25", 3, Disposition.NONE, True, False, DOMAIN, None, (ours,), "fail", ("forwarded",))
        )
    if reporter == "google.com" and number % 5 == 0:
        workspace = DkimResult(DOMAIN, "google", "pass")
        rows.append(DmarcRow("192.0.2.27", 4, Disposition.NONE, True, False, DOMAIN, None, (workspace,), "none"))
    if number % 4 == 0:
        rows.append(DmarcRow("203.0.113.77", 6 + number % 5, Disposition.NONE, False, False, DOMAIN, None, (), "fail"))
    return DmarcReport(
        reporter, f"demo-{number}", begins_at, begins_at + DAY, DOMAIN, "none", is_partial=False, rows=tuple(rows)
    )
