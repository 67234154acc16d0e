"""Peers: other ways to send queued messages, each set up as its guide recommends, in a separate environment.

A peer is a program that fills its queue and a program that works it off. Both read the job from `BENCH_JOB`, the
queue's address from `BENCH_QUEUE_URL`, the sink's port from `BENCH_SMTP_PORT`.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import psutil

from bench import job
from bench.children import Child, call
from bench.race import Run, race
from bench.stage import FOLDER, Stage

Command = Sequence[str | Path]


def compete(
    stage: Stage,
    name: str,
    count: int,
    *,
    enqueue: Command,
    work: Command,
    processes: int,
    queue_url: str,
    database: psutil.Process,
    env: dict[str, str],
    cwd: Path,
) -> Run:
    job.write(stage.scratch / name, count)
    env = {
        "BENCH_JOB": str(stage.scratch / name),
        "BENCH_QUEUE_URL": queue_url,
        "BENCH_SMTP_PORT": str(stage.sink.port),
        **env,
    }
    call(enqueue, env=env, cwd=cwd)
    workers = [Child(work, stage.log(f"{name}-{number}"), env, cwd) for number in range(processes)]
    return race(stage.sink, workers, count, database=database, advance=stage.advance)


def python_environment(name: str, requirements: Sequence[str]) -> Path:
    """The `bin` folder of a virtual environment with exactly these requirements."""
    folder, stamp = FOLDER / name, FOLDER / name / "requirements.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != list(requirements):
        uv = Path(__file__).parents[2] / ".venv" / "bin" / "uv"
        call([uv, "venv", "--quiet", "--clear", folder])
        call([uv, "pip", "install", "--quiet", "--python", folder, *requirements])
        stamp.write_text(json.dumps(list(requirements)))
    return folder / "bin"
