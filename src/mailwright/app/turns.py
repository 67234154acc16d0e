"""Let one process at a time do periodic work."""

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.permits import LimitWindow
from mailwright.outbox.ledger import DatabaseLedger


async def has_turn(work: str, interval: Instant, ledger: DatabaseLedger, clock: Clock) -> bool:
    """Try to reserve the work for this process in the current interval.

    If the process dies, another one reserves the next interval.
    """
    number = clock.now() // interval
    ends = (number + 1) * interval
    turn = LimitWindow(f"mailwright:turn:{work}:{number}", 1, ends, f"{work.replace('-', '_')}_turn", ends)
    return (await ledger.reserve((turn,), 1)).count > 0
