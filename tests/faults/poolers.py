"""The whole path of messages with few connections, through a connection pooler or without one."""

import asyncio

import asyncpg

from tests.faults.books import compare, standing
from tests.faults.figures import Figures
from tests.faults.outages import Load
from tests.faults.processes import until
from tests.faults.stage import Stage

_SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mailwright' AND datname = current_database()"
)


async def run(
    stage: Stage, server_url: str, *, bulk: int, transactional: int, connections: int, most_sessions: int
) -> Figures:
    """Accept, send, back up and audit with a server and two workers. `most_sessions` is the limit at PostgreSQL."""
    figures = Figures()
    await stage.open_sink(latency_seconds=0.01)
    stage.settings["MAILWRIGHT_DATABASE_CONNECTIONS"] = str(connections)
    await stage.command("db", "upgrade")
    credential = await stage.credential()
    await stage.accept_each(bulk, transactional)
    await stage.database.close()
    watcher = await asyncpg.connect(server_url, server_settings={"application_name": "watcher"})
    # The server ends connections later than its clients. A pooler keeps them.
    while stage.url == server_url and await watcher.fetchval(_SESSIONS):
        await asyncio.sleep(0.05)
    api, port = await stage.api("--no-worker")
    workers = [await stage.working(), await stage.working()]
    load = Load(port, credential)
    loading = asyncio.create_task(load.run())
    most = 0
    while sum(stage.received().values()) < bulk + transactional + 50:
        most = max(most, await watcher.fetchval(_SESSIONS))
        await asyncio.sleep(0.05)
        assert all(process.exit_code is None for process in (api, *workers))
    await watcher.close()
    file = stage.folder / "copy.mwbackup"
    await stage.command("backup", str(file))
    load.is_over = True
    await loading
    await stage.all_done(seconds=60)
    for worker in workers:
        worker.kill()
    api.kill()
    await until(lambda: api.exit_code is not None, 10, "the end of the API")

    rows = await standing(stage)
    figures.note("answers", dict(load.statuses))
    figures.at_most("connections to PostgreSQL", most, most_sessions)
    figures.none("answers other than 202", [status for status in load.statuses if status not in ("200", "202")])
    figures.none("answered with 202 but not stored", [each for each in load.told.values() if each not in rows])
    figures.none("sent twice", [each for each, times in stage.received().items() if times > 1])
    figures.expect("bytes of the backup", size := file.stat().st_size, "> 0", when=size > 0)
    await compare(stage, figures)
    return figures
