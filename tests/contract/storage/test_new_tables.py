"""Plans of PostgreSQL for tables that are still empty. A connection keeps a plan while the tables grow."""

import pytest
from sqlalchemy import text

from mailwright.outbox.accept import INSERT_MESSAGES
from mailwright.outbox.claim import CLAIMED_FACTS
from mailwright.storage.database import Database
from mailwright.storage.statements import Statement

COLUMNS = INSERT_MESSAGES.rows_parameter.columns if INSERT_MESSAGES.rows_parameter else ()
GIVEN = {
    INSERT_MESSAGES: {"messages": [(None,) * len(COLUMNS)], "now": 0},
    CLAIMED_FACTS: {"locked_until": 0, "token": 0},
}
# People who sign in. No recipient is compared with them.
ACCOUNTS = {"users", "account_links", "identities"}
ADDRESSES = """
SELECT table_name, collation_name FROM information_schema.columns
WHERE table_schema = 'public' AND column_name IN ('email', 'to_email')
"""
pytestmark = pytest.mark.parametrize("engine", ["postgresql"], indirect=True)


@pytest.mark.parametrize("wanted", GIVEN, ids=lambda wanted: wanted.name)
async def test_rows_are_found_by_whole_keys(wanted: Statement, database: Database) -> None:
    asked = Statement(f"explain {wanted.name}", f"EXPLAIN {wanted.text}")
    plan = [str(row[0]).strip() for row in await database.transact(lambda tx: tx.run(asked, **GIVEN[wanted]))]
    assert [line for line in plan if line.startswith("Index Cond: (tenant_id =")] == [], plan


async def test_addresses_can_be_compared_by_index(database: Database) -> None:
    async with database.read() as tx:
        found = {row.table_name: row.collation_name for row in await tx.execute(text(ADDRESSES))}
    assert {name for name, collation in found.items() if collation != "C"} == ACCOUNTS
