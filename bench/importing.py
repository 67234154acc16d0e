"""`python -m bench.importing [rows]`: how fast a file of contacts is imported on SQLite, and in how much memory."""

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
        asyncio.run(measure(path, rows))


def write(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("E-Mail,First Name,Last Name,City,Plan\n")
        for number in range(rows):
            email = f"reader{number * SHUFFLE % 100_000_007}.{number % 97}@{DOMAINS[number % len(DOMAINS)]}"
            file.write(f"{email},Ada{number % 997},Lovelace{number % 1009},Lisbon,{'pro' if number % 3 else 'free'}\n")


async def measure(path: Path, rows: int) -> None:
    database, clock = Database(f"sqlite:///{path.with_suffix('.db')}"), SystemClock()
    await upgrade(database)
    await lists.create(database, clock, 1, "news")
    for name in ("everyone new", "everyone known"):
        imports = Imports(database, clock)
        before = time.perf_counter()
        begun = await imports.begin(1, path, Purpose("news"))
        async for done in imports.run(begun, path, path.with_suffix(".report.csv")):
            last = done
        seconds = time.perf_counter() - before
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{name}: {rows / seconds:,.0f} rows/s, {last.added} added, {last.unchanged} unchanged, {memory} MB")
    await database.close()


if __name__ == "__main__":
    main()
