"""Upgrade a database in batches of 20 rows, and die with SIGKILL before a commit.

After each unit of work, while it holds no lock, it prints a line and waits for one.

Arguments: the URL, the folder of revisions, and the number of commits before the kill.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

from mailwright.storage import batched_changes, migrate, revision
from mailwright.storage.database import Database


async def main(url: str, versions: str, commits: int) -> None:
    left = commits

    def die(_connection: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    advance = migrate._advance

    def advance_in_turn(*arguments: Any) -> bool:
        is_unfinished = advance(*arguments)
        print(flush=True)
        sys.stdin.readline()
        return is_unfinished

    migrate._advance = advance_in_turn
    revision.VERSIONS = Path(versions)  # type: ignore[misc] # These are those of a later version.
    batched_changes.BATCH_ROWS = 20  # type: ignore[misc]
    event.listen(Engine, "commit", die)
    database = Database(url)
    await migrate.upgrade(database)
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
