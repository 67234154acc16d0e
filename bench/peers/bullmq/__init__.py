"""BullMQ with nodemailer composing, on Valkey: pooled SMTP connections, templates compiled once."""

import shutil
from pathlib import Path

from bench.children import call
from bench.peers import compete
from bench.race import Run
from bench.stage import FOLDER, Stage

HERE = Path(__file__).parent


def run(stage: Stage, count: int, processes: int, concurrency: int) -> Run:
    return _run(stage, count, processes, {"BENCH_CONCURRENCY": str(concurrency)})


def run_receipts(stage: Stage, count: int, processes: int, concurrency: int) -> Run:
    """Send messages that have their own HTML, without a text part: nodemailer derives none."""
    return _run(stage, count, processes, {"BENCH_CONCURRENCY": str(concurrency), "BENCH_RECEIPTS": "1"})


def _run(stage: Stage, count: int, processes: int, options: dict[str, str]) -> Run:
    folder = _environment()
    stage.valkey.clear()
    return compete(
        stage,
        "bullmq",
        count,
        enqueue=["node", "enqueue.mjs"],
        work=["node", "worker.mjs"],
        processes=processes,
        queue_url=stage.valkey.url,
        database=stage.valkey.process,
        env={**options, "NODE_ENV": "production"},
        cwd=folder,
    )


def _environment() -> Path:
    folder = FOLDER / "bullmq"
    folder.mkdir(parents=True, exist_ok=True)
    wanted, installed = (HERE / "package.json").read_bytes(), folder / "package.json"
    if not (folder / "node_modules").exists() or not installed.exists() or installed.read_bytes() != wanted:
        shutil.copy(HERE / "package.json", installed)
        call(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"], cwd=folder)
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, folder)
    return folder
