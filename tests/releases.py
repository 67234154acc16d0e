"""The filled databases of releases, as backups. `python -m tests.releases` writes the one of the present version.

A release runs it once, and never again: later versions must upgrade what that release stored.
"""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

from mailwright import __version__
from mailwright.app.backups import back_up
from mailwright.domain.clock import HOUR, ManualClock
from tests.builders import a_bench, a_message, settings_for, suppress
from tests.campaigns import CampaignHarness
from tests.sequences import SequenceBench, a_wait, an_email
from tests.standins.provider import ScriptedProvider

FOLDER: Final = Path(__file__).parent / "release_data"
CREATED: Final = 1_800_000_000_000
# What waits in each of these databases: messages, recipients of a campaign, and people in a wait of a sequence.
WAITING: Final = 3
WAITING_NAME: Final = "waiting"
RECIPIENTS: Final = 4
PEOPLE: Final = ("ada@example.com", "grace@example.com")


async def fill(url: str, clock: ManualClock) -> None:
    async with a_bench(url, clock) as bench:
        sequences = SequenceBench(bench)
        sequence_id = await sequences.start(an_email(), a_wait(hours=2), an_email("second"))
        await sequences.people(*PEOPLE)
        await sequences.enrol(sequence_id, *PEOPLE)
        await sequences.run()
        await bench.accept(*[a_message() for _ in range(5)])
        await bench.drain(ScriptedProvider())
        await bench.accept(*[a_message(to=f"{WAITING_NAME}{number}@example.com") for number in range(WAITING)])
        await suppress(bench.database, "left@example.com")
        await CampaignHarness(bench).start(RECIPIENTS)


async def write(file: Path) -> None:
    clock = ManualClock(CREATED)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/filled.db"
        await fill(url, clock)
        clock.advance(HOUR)
        async with a_bench(url, clock) as bench:
            settings = settings_for(url, images=Path(folder) / "images", state=Path(folder) / "state")
            await back_up(settings, bench.database, clock, file, force=True)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(write(FOLDER / f"{__version__}.mwbackup"))
