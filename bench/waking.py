"""How long a lone message waits: from the request that accepts it to its arrival at the sink, with an idle worker."""

import json
import statistics
import time
import urllib.request
from collections.abc import Mapping

from bench import mailwright
from bench.accept import MESSAGE
from bench.children import Child, NotMeasured
from bench.mailwright import PROGRAM, Service, environment, smtp_provider
from bench.race import POLL_SECONDS
from bench.stage import Stage

# The pauses differ, so that messages do not arrive at the same moment of a worker that polls.
IDLE_SECONDS = (1.0, 1.7)
WARM_UP = 2
LONGEST_WAIT_SECONDS = 60


def wake_milliseconds(stage: Stage, database_url: str, count: int, more: Mapping[str, str]) -> float:
    """Return the median of `count` lone messages. `more` are additional settings."""
    with mailwright.serving(stage, database_url, more) as service:
        env = {**environment(database_url), **smtp_provider(stage.sink), **more}
        with Child([PROGRAM, "worker"], stage.log("mailwright-waking"), env, stage.scratch) as worker:
            taken = [_arrival_seconds(stage, service, worker, number) for number in range(WARM_UP + count)]
    return statistics.median(taken[WARM_UP:]) * 1000


def _arrival_seconds(stage: Stage, service: Service, worker: Child, number: int) -> float:
    shortest, longest = IDLE_SECONDS
    time.sleep(shortest + (longest - shortest) * (number * 0.618 % 1))
    before, began = stage.sink.count(), time.perf_counter()
    request = urllib.request.Request(
        f"{service.url}/v1/email/send",
        json.dumps(MESSAGE).encode(),
        {"Authorization": f"Bearer {service.key}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=30).close()
    while stage.sink.count() <= before:
        if time.perf_counter() - began > LONGEST_WAIT_SECONDS or worker.exit_code() is not None:
            raise NotMeasured(worker.complaint())
        time.sleep(POLL_SECONDS)
    return time.perf_counter() - began
