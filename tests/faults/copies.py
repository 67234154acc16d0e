"""Put an old copy of the database back on a machine without its marker: nothing is sent twice without a decision."""

import asyncio
import signal
from pathlib import Path

import orjson

from mailwright.app.backups import back_up, load
from mailwright.domain.clock import SystemClock
from mailwright.outbox.sending_hold import HoldReason
from mailwright.storage.database import Database
from tests.builders import settings_for
from tests.faults.figures import Figures
from tests.faults.processes import Process
from tests.faults.stage import Stage

# A worker that is allowed to send begins within a second.
SENDING_SECONDS = 5
JOIN_SECONDS = 40


async def run(stage: Stage, *, messages: int) -> Figures:
    """Accept messages, copy the database, send them, put the copy back without the marker, and start again."""
    figures, copy = Figures(), stage.folder / "copy.mwbackup"
    await stage.open_sink()
    await _stop(await stage.working())
    await stage.accept(messages)
    await back_up(settings_for(stage.url), stage.database, SystemClock(), copy)
    before = await stage.working()
    await stage.all_done(seconds=60)
    await _stop(before)
    figures.expect("sent before", stage.received().total(), f"{messages}", when=stage.received().total() == messages)

    await _put_back(stage.url, copy)
    stage.settings = _on_new_machine("second")
    restarted = stage.worker()
    await restarted.says("sending_held", JOIN_SECONDS)
    reason = HoldReason.UNMARKED in restarted.said
    figures.expect("reason of the hold", reason, "database_unmarked", when=reason)
    joined = await stage.working(**_on_new_machine("third"))  # It sees that the database is in use.
    await asyncio.sleep(SENDING_SECONDS)
    figures.none("sent again while on hold", stage.received().total() - messages)
    listed = orjson.loads(await stage.command("quarantine", "list", "--json"))
    found = sum(each["messages"] for each in listed["messages"])
    figures.expect("messages in quarantine", found, f"{messages}", when=found == messages)

    await stage.command("quarantine", "drop", "--yes")
    await stage.accept(messages)
    await stage.all_done(seconds=60)
    fourth = await stage.working(**_on_new_machine("fourth"))  # It must not stop the others.
    await stage.accept(messages)
    await stage.all_done(seconds=60)
    received = stage.received()
    figures.none("sent twice", [key for key, times in received.items() if times > 1])
    figures.expect(
        "sent in total", received.total(), f"{3 * messages}", when=received.total() == len(received) == 3 * messages
    )
    figures.expect("audit identity", await stage.identity_holds(), "True", when=await stage.identity_holds())
    for worker in restarted, joined, fourth:
        await _stop(worker)
    return figures


def _on_new_machine(name: str) -> dict[str, str]:
    return {"MAILWRIGHT_STATE": f"state-of-{name}"}


async def _put_back(url: str, copy: Path) -> None:
    """Replace the content as a copy of the files would, without the hold of `mailwright restore`."""
    database = Database(url)
    try:
        await load(database, copy, None)
    finally:
        await database.close()


async def _stop(worker: Process) -> None:
    worker.signal(signal.SIGTERM)
    await worker.ended()
