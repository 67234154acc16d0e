"""A real PostgreSQL server for rehearsals, whose data is deleted when it ends."""

import asyncio

from tests.engines import postgresql
from tests.standins.options import StandInOptions


async def serve(_host: str, _port: int, _asked: StandInOptions) -> None:
    with postgresql() as server:
        print("PostgreSQL runs, on a socket of this machine. For every command of `mailwright`, set:")
        print(f"  export MAILWRIGHT_DATABASE_URL='{server.url('postgres')}'", flush=True)
        await asyncio.Event().wait()
