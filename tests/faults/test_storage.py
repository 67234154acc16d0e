"""A failed write does not affect the next one."""

import pytest

from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import NotDurable
from mailwright.outbox.settle import settle_and_begin
from mailwright.storage.database import Database
from mailwright.storage.hot import Runner
from tests.builders import Attempt, a_message, an_acceptor, claims_of, statuses


async def test_first_attempt_after_a_failed_commit_is_written(database: Database, clock: ManualClock) -> None:
    """Temporary tables of a failed transaction are gone; the next one must not rely on them."""
    await an_acceptor(database, clock).accept([a_message(), a_message()])
    claimed = await claims_of(database, clock).claim(2)

    async def breaks(tx: Runner) -> None:
        await settle_and_begin(tx, [], [Attempt(claimed[0])], clock.now())
        raise OSError("No space left on device")

    with pytest.raises(NotDurable):
        await database.transact(breaks)
    assert await statuses(database) == {"PENDING": 2}

    begun = await database.transact(lambda tx: settle_and_begin(tx, [], [Attempt(claimed[1])], clock.now()))
    assert begun.message_keys == {claimed[1].message_key}
    assert await statuses(database) == {"PENDING": 1, "SENT_ATTEMPT": 1}
