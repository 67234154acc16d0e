"""Storage faults: full disk, locked database, read-only file. Nothing is accepted, the caller gets a 503,
and the service recovers by itself."""

import contextlib
import resource
import signal
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tests.engines import sqlite_template
from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.http import ApiResponse, Client, a_mail
from tests.faults.stage import Stage, a_stage

# Less than any commit writes, more than the process logs meanwhile.
TWO_PAGES = 8_192


async def locked(stage: Stage, *, seconds: float) -> Figures:
    """Let another process hold the write lock for this long, and for at least one request."""
    figures = Figures()
    async with _serving(stage) as api:
        await _accepted(figures, api, "before")
        with _held_lock(stage):
            started = time.monotonic()
            refusals = [await api.send(a_mail("locked"), "while-locked")]
            while time.monotonic() - started < seconds:
                refusals.append(await api.send(a_mail("locked"), "while-locked"))
        figures.note("seconds locked", round(time.monotonic() - started))
        _refused(figures, refusals)
        await _recovers(figures, api, stage)
    return figures


async def full(stage: Stage) -> Figures:
    """Limit the file size to a few pages, which acts like a full disk."""
    figures = Figures()
    async with _serving(stage) as api:
        await _accepted(figures, api, "before")
        soft, hard = resource.prlimit(api.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(api.pid, resource.RLIMIT_FSIZE, (TWO_PAGES, hard))
        refusals = [await api.send(a_mail(f"full{number}"), f"while-full-{number}") for number in range(5)]
        resource.prlimit(api.pid, resource.RLIMIT_FSIZE, (soft, hard))
        _refused(figures, refusals)
        await _recovers(figures, api, stage)
    return figures


async def full_file_system(figures: Figures, folder: Path) -> None:
    """Use a real disk of a few megabytes. Needs root; `full` tests the same without it."""
    with small_disk(folder) as disk:
        file = disk / "mailwright.db"
        file.write_bytes(sqlite_template())
        async with a_stage(f"sqlite:///{file}") as stage, _serving(stage) as api:
            await _accepted(figures, api, "before")
            ballast = disk / "ballast"
            _fill(ballast)
            refusals = [await api.send(a_mail(f"full{number}"), f"while-full-{number}") for number in range(5)]
            refusals = [answer for answer in refusals if answer.status != 202]  # The last free pages may still suffice.
            ballast.unlink()
            _refused(figures, refusals)
            await _recovers(figures, api, stage)


async def read_only(figures: Figures, folder: Path) -> None:
    """With a read-only file, the service reports the problem and does not start."""
    with small_disk(folder) as disk:
        file = disk / "mailwright.db"
        file.write_bytes(sqlite_template())
        _mount("-o", "remount,ro", str(disk))
        async with a_stage(f"sqlite:///{file}") as stage:
            serve = stage.start("serve", ["serve", "--port", "0"])
            code = await serve.ended()
            figures.expect("exit code on a read-only file", code, "3", when=code == 3)
            said = serve.said.strip().splitlines()[-2:]
            is_clear = any("database" in line.lower() for line in said) and "Traceback" not in serve.said
            figures.expect("said on a read-only file", " ".join(said)[:100], "why, without a trace", when=is_clear)
            _mount("-o", "remount,rw", str(disk))
            async with _serving(stage) as api:
                await _accepted(figures, api, "when it is writable again")


class Api(Client):
    """An API with a worker, and the process that the fault affects."""

    def __init__(self, port: int, credential: str, pid: int) -> None:
        super().__init__(port, credential)
        self.pid = pid


@contextlib.asynccontextmanager
async def _serving(stage: Stage) -> AsyncIterator[Api]:
    await stage.open_sink()
    credential = await stage.credential()
    process, port = await stage.api()
    async with Api(port, credential, process.pid) as api:
        yield api
    process.signal(signal.SIGTERM)
    await process.ended()


async def _accepted(figures: Figures, api: Api, when: str) -> None:
    answer = await api.send(a_mail("usual"), f"usual-{when}")
    figures.expect(f"answer {when}", answer.status, "202", when=answer.status == 202)


def _refused(figures: Figures, refusals: list[ApiResponse]) -> None:
    statuses = sorted({answer.status for answer in refusals})
    figures.expect("answers meanwhile", f"{len(refusals)}: {statuses}", "503", when=statuses == [503])
    plain = [answer for answer in refusals if answer.body.get("code") == "NOT_DURABLE" and answer.body.get("detail")]
    figures.expect("with a code and a sentence", len(plain), f"{len(refusals)}", when=len(plain) == len(refusals))
    hints = [answer for answer in refusals if answer.headers.get("retry-after", "").isdigit()]
    figures.expect("with Retry-After", len(hints), f"{len(refusals)}", when=len(hints) == len(refusals))


async def _recovers(figures: Figures, api: Api, stage: Stage) -> None:
    """Check that the same process accepts and sends again, and that nothing is half stored."""
    answer = await api.send(a_mail("after"), "after")
    figures.expect("answer after", answer.status, "202", when=answer.status == 202)
    await stage.all_done(seconds=60)
    rows = await standing(stage)
    stored = {row.to_email for row in rows.values()}
    figures.none("refused and stored", sorted(email for email in stored if "locked" in email or "full" in email))
    figures.expect("sent", len(stage.received()), f"{len(rows)}", when=set(stage.received()) == set(rows))
    holds = await stage.identity_holds()
    figures.expect("audit identity", holds, "True", when=holds)


@contextlib.contextmanager
def _held_lock(stage: Stage) -> Iterator[None]:
    connection = sqlite3.connect(stage.url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 10000")
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def can_mount(folder: Path) -> bool:
    try:
        with small_disk(folder):
            return True
    except (subprocess.CalledProcessError, OSError):
        return False


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a disk of 6 MB. Needs root."""
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    _mount("-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk))
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True, capture_output=True)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def _fill(file: Path) -> None:
    with file.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(4096))
