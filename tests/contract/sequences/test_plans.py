"""How the engines find people in large sequences: by key, also before the statistics of a young table exist."""

import re
from typing import Any, Final

from sqlalchemy import text

from mailwright.domain.clock import DAY
from mailwright.sources.sequences.events import LOCK_WAITING_ENROLMENTS
from mailwright.sources.sequences.finished import LATEST_RUNS
from mailwright.sources.sequences.runner import DUE_SEQUENCES, LOCK_DUE_CONTACTS, LOCK_DUE_ENROLMENTS
from mailwright.storage.database import Transaction
from mailwright.storage.statements import Statement
from tests.sequences import SequenceBench, a_wait

PEOPLE: Final = 20_000
CONTACTS: Final = [(number,) for number in range(1, 101)]
BY_TIME: Final[dict[Statement, dict[str, Any]]] = {DUE_SEQUENCES: {}, LOCK_DUE_CONTACTS: {"only": 0, "limit": 500}}
BY_CONTACT: Final[dict[Statement, dict[str, Any]]] = {
    LOCK_DUE_ENROLMENTS: {"contacts": CONTACTS},
    LATEST_RUNS: {"contacts": CONTACTS},
    LOCK_WAITING_ENROLMENTS: {"contacts": CONTACTS, "node": "pause"},
}


async def test_large_sequence_is_not_scanned(sequences: SequenceBench) -> None:
    await sequences.start(a_wait())
    now, is_sqlite = sequences.clock.now(), sequences.database.dialect == "sqlite"
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {PEOPLE})"
    columns = "tenant_id, sequence_key, contact_key, run, entered_at, entered_because, node, due_at, events_after"
    async with sequences.database.write() as tx:
        [row] = await tx.execute(text("SELECT id FROM sequences"))
        values = f"1, {row.id}, i, 1, 0, 'manual', 'pause', {now + DAY} + i, 0"
        if not is_sqlite:  # Earlier tests left pages in the indexes of these tables, which change the costs.
            await tx.execute(text("TRUNCATE sequence_enrolments, contacts"))
        await tx.execute(text(f"INSERT INTO sequence_enrolments ({columns}) {numbers} SELECT {values} FROM n"))
        if not is_sqlite:  # A scan of so few rows is cheap.
            await tx.execute(text("SET LOCAL enable_seqscan = off"))
        given = {"sequence_key": row.id, "now": now}
        await _check_plans(tx, given, is_sqlite=is_sqlite)
        await tx.execute(text("ANALYZE sequence_enrolments"))
        await _check_plans(tx, given, is_sqlite=is_sqlite)


async def _check_plans(tx: Transaction, given: dict[str, Any], *, is_sqlite: bool) -> None:
    for wanted, parameters in BY_CONTACT.items():
        plan = await _plan(tx, wanted, given | parameters, is_sqlite=is_sqlite)
        assert re.search("ix_sequence_enrolments_contact_key|uq_sequence_enrolments_running", plan), plan
    for wanted, parameters in BY_TIME.items():
        plan = await _plan(tx, wanted, given | parameters, is_sqlite=is_sqlite)
        assert "ix_sequence_enrolments_due" in plan, plan
        assert "Sort Key: e." not in plan, plan


async def _plan(tx: Transaction, wanted: Statement, parameters: dict[str, Any], *, is_sqlite: bool) -> str:
    asked = Statement(wanted.name, f"EXPLAIN {'QUERY PLAN ' * is_sqlite}{wanted.text}")
    return "\n".join(str(row[-1]) for row in await tx.run(asked, **parameters))
