"""Celery with smtplib, on Valkey as Redis broker: prefork, one kept SMTP connection per process."""

from pathlib import Path

from bench.peers import compete, python_environment
from bench.race import Run
from bench.stage import Stage

REQUIREMENTS = ("celery[redis]==5.7.0", "jinja2==3.1.6")


def run(stage: Stage, count: int, processes: int, concurrency: int) -> Run:
    bin_folder = python_environment("celery", REQUIREMENTS)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=warning"]
    stage.valkey.clear()
    return compete(
        stage,
        "celery",
        count,
        enqueue=[bin_folder / "python", "tasks.py"],
        work=[bin_folder / "celery", "-A", "tasks", "worker", f"--concurrency={concurrency}", *quiet],
        processes=processes,
        queue_url=stage.valkey.url,
        database=stage.valkey.process,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        cwd=Path(__file__).parent,
    )
