"""Several processes of one command: kills, shutdown, errors at the start and metrics."""

import asyncio
import signal
import urllib.request
from pathlib import Path

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mailwright.domain.states import Status
from tests.faults import supervised
from tests.faults.books import standing
from tests.faults.processes import until
from tests.faults.stage import Stage
from tests.faults.supervised import PATIENCE_SECONDS
from tests.ports import free_port


@pytest.mark.promise("never-lost")
@pytest.mark.promise("never-doubled")
@pytest.mark.promise("processes-supervised")
async def test_killed_processes_and_supervisor_lose_nothing(stage: Stage) -> None:
    figures = await supervised.run(stage, kills=2, messages=120, supervisor_every=2, processes=2)
    assert figures.misses == []


@pytest.mark.promise("drain-graceful")
@pytest.mark.promise("processes-supervised")
async def test_stopped_supervisor_drains_every_process(file_stage: Stage) -> None:
    stage = file_stage
    await stage.open_sink(latency_seconds=0.3)
    stage.settings = {"MAILWRIGHT_LOCK_TTL_SECONDS": "600"}
    await stage.accept(200)
    supervisor = supervised.start(stage, processes=2)
    await until(lambda: bool(stage.received()), PATIENCE_SECONDS, "the first message")
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended(PATIENCE_SECONDS) == 0
    rows = (await standing(stage)).values()
    assert all(row.locked_by is None and row.status in ("SENT", "PENDING") for row in rows)
    assert sum(row.status == "SENT" for row in rows) == stage.received().total()


async def test_second_signal_ends_every_process_at_once(file_stage: Stage) -> None:
    stage = file_stage
    await stage.open_sink(latency_seconds=600)
    await stage.accept(10)
    patient = {"MAILWRIGHT_LOCK_TTL_SECONDS": 600, "SHUTDOWN_GRACE_SECONDS": 600}
    supervisor = supervised.start(stage, processes=2, **patient)
    while not any(row.status == Status.SENT_ATTEMPT for row in (await standing(stage)).values()):
        await asyncio.sleep(0.05)
    children = supervised.working(supervisor)
    supervisor.signal(signal.SIGTERM)
    await supervisor.says("stopping", PATIENCE_SECONDS)
    supervisor.signal(signal.SIGTERM)
    assert await supervisor.ended(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert not any(child.is_running() for child in children)


async def test_invalid_settings_are_reported_once(file_stage: Stage) -> None:
    supervisor = supervised.start(file_stage, MAILWRIGHT_SMTP_URL="smtp://:nowhere")
    assert await supervisor.ended(PATIENCE_SECONDS) == 2
    assert supervisor.said.count("The configuration has an error") == 1
    assert _events(supervisor.said, "process_cannot_start") == [{"process": 1, "processes": 3, "exitCode": 2}]


async def test_too_few_connections_for_the_processes_are_refused(file_stage: Stage) -> None:
    supervisor = supervised.start(file_stage, MAILWRIGHT_SMTP_CONNECTIONS=2)
    assert await supervisor.ended(PATIENCE_SECONDS) == 2
    assert supervisor.said.count("2 connections are too few for 3 processes") == 1


@pytest.mark.promise("processes-supervised")
async def test_metrics_add_up_over_processes_and_their_restarts(file_stage: Stage) -> None:
    stage, port = file_stage, free_port()
    await stage.open_sink()
    supervisor = supervised.start(stage, processes=2, MAILWRIGHT_METRICS_PORT=port, MAILWRIGHT_CONCURRENCY=2)
    await supervisor.says('"process": 2', PATIENCE_SECONDS)
    for total in (30, 60):
        await stage.accept(30)
        await stage.all_done(PATIENCE_SECONDS)
        await until(lambda: _sent(port) == total, PATIENCE_SECONDS, f"{total} messages in the metrics")  # noqa: B023
        if total == 30:
            supervised.working(supervisor)[0].kill()
            await until(lambda: supervisor.said.count("worker_started") == 3, PATIENCE_SECONDS, "the restart")
            assert _sent(port) == total


async def test_drained_processes_end_together(file_stage: Stage) -> None:
    await file_stage.open_sink()
    await file_stage.accept(100)
    supervisor = supervised.start(file_stage, "--drain", processes=2)
    assert await supervisor.ended(PATIENCE_SECONDS) == 0
    assert file_stage.received().total() == 100


@pytest.mark.promise("processes-supervised")
async def test_server_goes_on_while_a_process_restarts(file_stage: Stage) -> None:
    file_stage.settings["MAILWRIGHT_BASE_URL"] = "https://mail.example.com"
    api, port = await file_stage.api("--processes", "2", "--no-worker")
    await until(lambda: api.said.count("api_started") == 2, PATIENCE_SECONDS, "both processes")
    assert api.said.count("https://mail.example.com/set-up?token=") == 1
    first, second = supervised.working(api)
    first.kill()
    await api.says("process_ended", PATIENCE_SECONDS)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE_SECONDS) as response:
        assert orjson.loads(response.read())["status"] == "ready"
    await until(lambda: api.said.count("api_started") == 3, PATIENCE_SECONDS, "the restarted process")
    assert api.said.count("/set-up?token=") == 1
    assert second.is_running()
    api.signal(signal.SIGTERM)
    assert await api.ended(PATIENCE_SECONDS) == 0


@pytest.mark.promise("processes-supervised")
async def test_unread_report_does_not_hide_a_killed_supervisor(file_stage: Stage) -> None:
    supervisor = file_stage.start("serve", ["serve", "--port", "0", "--processes", "2"], TMPDIR=file_stage.folder)
    await until(lambda: bool(supervised.working(supervisor)), PATIENCE_SECONDS, "a process")
    supervisor.signal(signal.SIGSTOP)
    await supervisor.says("worker_started", PATIENCE_SECONDS)
    children = supervised.working(supervisor)
    supervisor.kill()
    assert await supervised.count_left(children) == 0
    assert "supervisor_lost" in supervisor.said


@pytest.mark.promise("processes-supervised")
async def test_killed_supervisor_leaves_neither_processes_nor_metrics(file_stage: Stage) -> None:
    def folders() -> set[Path]:
        return set(file_stage.folder.glob("mailwright-metrics-*"))

    first = supervised.start(file_stage, processes=2, TMPDIR=file_stage.folder)
    await first.says("supervisor_started", PATIENCE_SECONDS)
    left = folders()
    assert len(left) == 1
    await until(lambda: first.said.count("worker_started") == 2, PATIENCE_SECONDS, "both processes")
    children = supervised.working(first)
    assert len(children) == 2
    first.kill()
    assert await supervised.count_left(children) == 0
    assert first.said.count("supervisor_lost") == 2
    second = supervised.start(file_stage, processes=2, TMPDIR=file_stage.folder)
    await second.says("supervisor_started", PATIENCE_SECONDS)
    assert len(folders()) == 1
    assert not folders() & left
    second.signal(signal.SIGTERM)
    assert await second.ended(PATIENCE_SECONDS) == 0
    assert not folders()


def _events(said: str, event: str) -> list[dict[str, object]]:
    """Return the fields of the log lines of this event."""
    lines = [orjson.loads(line) for line in said.splitlines() if line.startswith("{")]
    usual = ("event", "component", "level", "timestamp")
    return [{key: line[key] for key in line if key not in usual} for line in lines if line["event"] == event]


def _sent(port: int) -> float:
    """Return how many messages were sent, according to the metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        families = {family.name: family for family in text_string_to_metric_families(response.read().decode())}
    samples = families["pipeline_final_state"].samples if "pipeline_final_state" in families else []
    return sum(sample.value for sample in samples if sample.labels["state"] == "SENT")
