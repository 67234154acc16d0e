"""Check that every accepted message is in exactly one state."""

from dataclasses import asdict, dataclass

from mailwright.domain.states import OPEN, Status
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

AUDIT = statement(__package__, "audit")


@dataclass(frozen=True, slots=True)
class Audit:
    """The numbers of the audit. `accepted` was counted at acceptance. The others are the current counts per state."""

    accepted: int
    sent: int
    failed: int
    in_doubt: int
    closed_unknown: int
    suppressed: int
    cancelled: int
    open: int
    resent_in_doubt: int

    @property
    def ok(self) -> bool:
        return self.accepted == (
            self.sent + self.failed + self.in_doubt + self.closed_unknown + self.suppressed + self.cancelled + self.open
        )

    def as_dict(self) -> dict[str, int | bool]:
        return {**asdict(self), "ok": self.ok}


async def audit(database: Database) -> Audit:
    async with database.read() as tx:
        rows = await tx.run(AUDIT)
    count = {row.name: int(row.messages) for row in rows}
    return Audit(
        accepted=count.get("accepted", 0),
        sent=count.get(Status.SENT, 0),
        failed=count.get(Status.FAILED, 0),
        in_doubt=count.get(Status.IN_DOUBT, 0),
        closed_unknown=count.get(Status.CLOSED_UNKNOWN, 0),
        suppressed=count.get("SUPPRESSED", 0),
        cancelled=count.get(Status.CANCELLED, 0),
        open=sum(count.get(status, 0) for status in OPEN),
        resent_in_doubt=sum(int(row.resends) for row in rows),
    )
