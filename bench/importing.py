"""Measure the speed and the memory of an import of contacts. Runs as its own process.

`python -m bench.importing DATABASE [ROWS]` imports into an empty database twice: first all rows are new, then known.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from mailwright.audience import lists
from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.domain.clock import SystemClock
from mailwright.storage.database import Database
from mailwright.storage.migrate import upgrade

ROWS = 1_000_000
# Visit each number once, but not in the order of the addresses: the multiplier is coprime to the number of rows.
SHUFFLE = 7_368_787
DOMAINS = ("gmail.com", "yahoo.com", "example.org", "mail.example.com")


@dataclass(frozen=True, slots=True)
class Imported:
    rows: int
    added: int
    unchanged: int
    seconds: float
    cpu_seconds: float  # of this process
    megabytes: float  # the peak, including the part of the file that SQLite maps

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds


def measured(url: str, rows: int) -> list[Imported]:
    words = [sys.executable, "-m", "bench.importing", url, str(rows)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return [Imported(**each) for each in json.loads(done.stdout)]


def write(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("E-Mail,First Name,Last Name,City,Plan\n")
        for number in range(rows):
            email = f"reader{number * SHUFFLE % 100_000_007}.{number % 97}@{DOMAINS[number % len(DOMAINS)]}"
            file.write(f"{email},Ada{number % 997},Lovelace{number % 1009},Lisbon,{'pro' if number % 3 else 'free'}\n")


async def twice(url: str, path: Path, rows: int) -> list[Imported]:
    database, clock = Database(url), SystemClock()
    await upgrade(database)
    await lists.create(database, clock, 1, "news")
    found = [await once(Imports(database, clock), path, rows) for _ in range(2)]
    await database.close()
    return found


async def once(imports: Imports, path: Path, rows: int) -> Imported:
    before, busy = time.perf_counter(), time.process_time()
    begun = await imports.begin(1, path, ImportOptions("news"))
    async for done in imports.run(begun, path, path.with_suffix(".report.csv")):
        last = done
    seconds, busy = time.perf_counter() - before, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Imported(rows, last.added, last.unchanged, seconds, busy, memory)


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m bench.importing", description=__doc__)
    reader.add_argument("database", help="the address of an empty database")
    reader.add_argument("rows", type=int, nargs="?", default=ROWS)
    asked = reader.parse_args()
    with tempfile.TemporaryDirectory(prefix="mwimport") as folder:
        path = Path(folder) / "people.csv"
        write(path, asked.rows)
        json.dump([asdict(each) for each in asyncio.run(twice(asked.database, path, asked.rows))], sys.stdout)


if __name__ == "__main__":
    main()
