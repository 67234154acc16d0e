"""Check that every accepted message is in exactly one state."""

from collections import Counter

from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.states import OPEN, Status
from mailwright.storage.database import Database
from mailwright.storage.statements import statement

AUDIT = statement(__package__, "audit")


@dataclass(frozen=True, slots=True)
class Audit:
    """The numbers of the audit. `accepted` was counted at acceptance. The others are the current counts per state.

    `deleted` is the number of messages that retention deleted. Each of them also counts for the state that it had.
    """

    accepted: int
    sent: int
    failed: int
    in_doubt: int
    closed_unknown: int
    suppressed: int
    cancelled: int
    open: int
    resent_in_doubt: int
    deleted: int = 0

    @property
    def ok(self) -> bool:
        return self.accepted == (
            self.sent + self.failed + self.in_doubt + self.closed_unknown + self.suppressed + self.cancelled + self.open
        )


async def audit(database: Database) -> Audit:
    async with database.read() as tx:
        rows = await tx.run(AUDIT)
    count = Counter[str]()
    for row in rows:
        count[row.name] += int(row.messages)
    return Audit(
        accepted=count["accepted"],
        sent=count[Status.SENT],
        failed=count[Status.FAILED],
        in_doubt=count[Status.IN_DOUBT],
        closed_unknown=count[Status.CLOSED_UNKNOWN],
        suppressed=count["SUPPRESSED"],
        cancelled=count[Status.CANCELLED],
        open=sum(count[status] for status in OPEN),
        resent_in_doubt=sum(int(row.resends) for row in rows),
        deleted=count["deleted"],
    )
