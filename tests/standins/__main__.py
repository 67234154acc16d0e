"""Stand-ins for a rehearsal: `python -m tests.standins ses --port 8026` runs one until Ctrl-C.

`ses --fail 503 --times 3` refuses the first three requests; `sendgrid --events-to URL` posts signed events of accepted
messages; `sns --outbox-id ID --email ADDRESS --type bounce` reports one message. `postgresql` and `valkey` are real
ones, from their wheels: what they hold is gone when they end.
"""

import argparse
import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from importlib import import_module

from tests.standins.options import StandInOptions

# Each of these modules has an `async def serve(host, port, asked)` that prints its address and the settings to use.
NAMES = ("ses", "sendgrid", "smtp", "smtpbz", "sns", "supabase", "notion", "postgresql", "valkey")

Serve = Callable[[str, int, StandInOptions], Coroutine[None, None, None]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.standins", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="any free one if not given; postgresql has none")
    parser.add_argument("--fail", type=int, metavar="STATUS", help="ses, sendgrid, smtp, smtpbz: answer this")
    parser.add_argument("--times", type=int, metavar="N", help="so often; always if not given")
    parser.add_argument("--events-to", metavar="URL", help="sendgrid: where to post events of accepted messages")
    parser.add_argument("--outbox-id", metavar="ID", help="sns: the message to report")
    parser.add_argument("--email", default=StandInOptions().email, metavar="ADDRESS", help="sns: its reader")
    parser.add_argument("--type", choices=("bounce", "complaint", "delivery"), help="sns, sendgrid: the event")
    parser.add_argument("--seed", metavar="FILE", help="notion: a JSON file of tables and pages; samples if not given")
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="smtp: take so long per message")
    parser.add_argument("--outage", choices=("refuse", "hang"), help="smtp: refuse connections, or never reply")
    parser.add_argument("--seconds", type=float, metavar="N", help="smtp: when --fail or --outage ends")
    chosen = parser.parse_args(arguments)
    asked = StandInOptions(
        chosen.fail,
        chosen.times,
        chosen.events_to,
        chosen.outbox_id,
        chosen.email,
        chosen.type,
        chosen.seed,
        chosen.delay,
        chosen.outage,
        chosen.seconds,
    )
    serve: Serve = import_module(f"tests.standins.{chosen.name}").serve
    try:
        asyncio.run(serve(chosen.host, chosen.port, asked))
    except KeyboardInterrupt:
        print()


if __name__ == "__main__":
    # Both signals act as Ctrl-C, even if the parent process ignores it, so that started servers are stopped.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    main()
