"""`python -m bench.importing [rows] [database]`: how fast a file of contacts is imported, and in how much memory.

On SQLite, unless the address of an empty PostgreSQL is given. CPU seconds are this process's own.
"""

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from mailwright.audience import lists
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plans import Purpose
from mailwright.domain.clock import SystemClock
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade

ROWS = 1_000_000
# Any order but that of the addresses: a multiplier without a common factor visits each number once.
SHUFFLE = 7_368_787
DOMAINS = ("gmail.com", "yahoo.com", "example.org", "mail.example.com")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory(prefix="mwimport") as folder:
        path = Path(folder) / "people.csv"
        write(path, rows)
        url = sys.argv[2] if len(sys.argv) > 2 else f"sqlite:///{path.with_suffix('.db')}"
        asyncio.run(measure(url, path, rows))


def write(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("E-Mail,First Name,Last Name,City,Plan\n")
        for number in range(rows):
            email = f"reader{number * SHUFFLE % 100_000_007}.{number % 97}@{DOMAINS[number % len(DOMAINS)]}"
            file.write(f"{email},Ada{number % 997},Lovelace{number % 1009},Lisbon,{'pro' if number % 3 else 'free'}\n")


async def measure(url: str, path: Path, rows: int) -> None:
    database, clock = Database(url), SystemClock()
    await upgrade(database)
    await lists.create(database, clock, 1, "news")
    for name in ("everyone new", "everyone known"):
        imports = Imports(database, clock)
        before, busy = time.perf_counter(), time.process_time()
        begun = await imports.begin(1, path, Purpose("news"))
        async for done in imports.run(begun, path, path.with_suffix(".report.csv")):
            last = done
        seconds, busy = time.perf_counter() - before, time.process_time() - busy
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{name}: {rows / seconds:,.0f} rows/s, {rows / busy:,.0f} per CPU second, {last.added} added, "
            f"{last.unchanged} unchanged, {memory} MB",
            flush=True,
        )
    await database.close()


if __name__ == "__main__":
    main()
