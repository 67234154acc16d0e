"""Stand-ins for a rehearsal: `python -m tests.standins ses --port 8026` runs one until Ctrl-C."""

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module

# Each of these modules has an `async def serve(host, port)` that says where it listens and what to set.
NAMES = ("ses", "sendgrid", "smtpbz", "sns")

Serve = Callable[[str, int], Coroutine[None, None, None]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.standins", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="any free one if not given")
    chosen = parser.parse_args()
    serve: Serve = import_module(f"tests.standins.{chosen.name}").serve
    try:
        asyncio.run(serve(chosen.host, chosen.port))
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    main()
