"""A real Valkey server for rehearsals, whose data is deleted when it ends."""

import asyncio

from tests.engines import valkey_server
from tests.standins.options import StandInOptions


async def serve(_host: str, port: int, _asked: StandInOptions) -> None:
    with valkey_server(port=port or None) as server:
        print("Valkey runs. For `mailwright serve` and `mailwright worker`, set:")
        print(f"  export MAILWRIGHT_REDIS_URL={server.url}", flush=True)
        await asyncio.Event().wait()
