"""The integrations of the Python client, with the real frameworks, the examples and a real server."""

import asyncio
import logging
import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from mailwright.storage.database import Database
from mailwright.storage.tables import messages
from mailwright_client import NotReached
from mailwright_client.logging import EmailHandler
from tests.contract.api.test_client import Served, served

__all__ = ["served"]  # The fixture of the client's tests.

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def environment(served: Served, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    variables = {"MAILWRIGHT_URL": served.url, "MAILWRIGHT_API_KEY": served.key}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return variables


async def stored(database: Database) -> list[tuple[str, str, str]]:
    m = messages.c
    async with database.read() as tx:
        rows = await tx.execute(select(m.outbox_id, m.to_email, m.subject).order_by(m.id))
    return [(row.outbox_id, row.to_email, row.subject) for row in rows]


@pytest.mark.promise("django-backend")
@pytest.mark.usefixtures("environment")
async def test_flask_example_sends_an_order_once(database: Database) -> None:
    def order() -> list[Any]:
        example = runpy.run_path(str(EXAMPLES / "flask" / "app.py"))
        client = example["app"].test_client()
        answers = [client.post("/orders/7", data={"email": "ada@example.com"}).json for _ in range(2)]
        with example["app"].app_context():
            example["email"].client.close()
        return answers

    answers = await asyncio.to_thread(order)
    [(outbox_id, to, subject)] = await stored(database)
    assert answers == [{"message": outbox_id}] * 2
    assert (to, subject) == ("ada@example.com", "Order 7")


@pytest.mark.promise("django-backend")
@pytest.mark.usefixtures("environment")
async def test_fastapi_example_sends_an_order_once(database: Database) -> None:
    def order() -> list[Any]:
        with TestClient(runpy.run_path(str(EXAMPLES / "fastapi" / "app.py"))["app"]) as client:
            return [client.post("/orders/7", params={"address": "ada@example.com"}).json() for _ in range(2)]

    answers = await asyncio.to_thread(order)
    [(outbox_id, _, subject)] = await stored(database)
    assert answers == [{"message": outbox_id}] * 2
    assert subject == "Order 7"


@pytest.mark.promise("django-backend")
@pytest.mark.usefixtures("environment")
async def test_repeated_celery_task_sends_an_order_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = pytest.importorskip("celery.contrib.testing.worker", reason="Celery is not installed")
    monkeypatch.setenv("CELERY_BROKER_URL", "memory://")

    def order() -> list[str]:
        # Celery gives the tasks of a module to all applications of a process, so each needs a name of its own.
        example = runpy.run_path(str(EXAMPLES / "celery" / "tasks.py"), run_name=f"tasks_{uuid4().hex}")
        example["app"].conf.update(
            result_backend="cache+memory://", broker_transport_options={"polling_interval": 0.01}
        )
        with worker.start_worker(example["app"], pool="solo", perform_ping_check=False):
            tasks = [example["confirm"].delay(7, "ada@example.com") for _ in range(2)]
            found = [task.get(timeout=60) for task in tasks]
        example["email"]().close()
        return found

    found = await asyncio.to_thread(order)
    [(outbox_id, to, subject)] = await stored(database)
    assert found == [outbox_id] * 2
    assert (to, subject) == ("ada@example.com", "Order 7")


@pytest.mark.promise("django-backend")
@pytest.mark.usefixtures("environment")
async def test_airflow_callback_sends_each_failed_attempt_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Call it with the values that Airflow passes. Airflow itself installs more than a hundred packages."""
    monkeypatch.setenv("ALERTS_TO", "ops@example.com")
    callback = runpy.run_path(str(EXAMPLES / "airflow" / "callbacks.py"))["email_failure"]
    ids = {"dag_id": "sales", "task_id": "load", "map_index": -1}
    attempts = [("scheduled__2026-11-17T10:00:00+00:00", 2), ("scheduled__2026-11-17T11:00:00+00:00", 2)]

    def fail() -> None:
        for run_id, attempt in (*attempts, attempts[0]):
            task = SimpleNamespace(**ids, run_id=run_id, try_number=attempt)
            callback({"task_instance": task, "exception": ValueError("no rows")})

    await asyncio.to_thread(fail)
    found = await stored(database)
    assert [(to, subject) for _, to, subject in found] == [("ops@example.com", "sales.load failed")] * 2


@pytest.mark.promise("django-backend")
async def test_missing_settings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAILWRIGHT_URL", raising=False)
    for example in ("flask", "fastapi"):
        with pytest.raises(RuntimeError, match="MAILWRIGHT_URL"):
            runpy.run_path(str(EXAMPLES / example / "app.py"))


@pytest.mark.promise("django-backend")
async def test_job_that_ends_at_once_still_sends_its_error(database: Database, environment: dict[str, str]) -> None:
    command = [sys.executable, str(EXAMPLES / "logging" / "job.py")]
    variables = {**os.environ, **environment}
    await asyncio.to_thread(subprocess.run, command, env=variables, check=True, timeout=60)
    [(_, to, subject)] = await stored(database)
    assert (to, subject) == ("ops@example.com", "[job] ERROR: The job failed.")


class RecordingClient:
    """Records emails instead of sending them, and logs like the libraries of the real client."""

    def __init__(self, error: Exception | None = None) -> None:
        self.email = self
        self.sent: list[Any] = []
        self.has_sent = threading.Event()
        self.may_send = threading.Event()
        self.may_send.set()
        self._error = error

    def send(self, request: Any) -> None:
        self.may_send.wait(100)
        logging.getLogger("httpx").error("HTTP Request")
        self.sent.append(request)
        self.has_sent.set()
        if self._error is not None:
            raise self._error


@pytest.fixture
def http_log(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The log of the client's library, whose handlers are restored after the test."""
    log = logging.getLogger("httpx")
    monkeypatch.setattr(log, "handlers", [])
    return log


def a_logger(client: RecordingClient, http_log: logging.Logger, **options: Any) -> tuple[logging.Logger, EmailHandler]:
    handler = EmailHandler("", "", to="ops@example.com", client=client, **options)  # type: ignore[arg-type]
    logger = logging.Logger("test")
    logger.addHandler(handler)
    http_log.addHandler(handler)
    return logger, handler


@pytest.mark.promise("django-backend")
def test_later_records_share_the_next_email(http_log: logging.Logger) -> None:
    client = RecordingClient()
    logger, handler = a_logger(client, http_log, interval_seconds=3_600, close_seconds=60)
    logger.error("first\nline")
    assert client.has_sent.wait(60)
    for number in range(2_000):
        logger.error("later %s", number)
    handler.close()
    first, later = client.sent
    assert (first.subject, first.text) == ("ERROR: first", "first\nline")
    assert later.text.startswith("1000 more records were dropped.\n\nlater 0\n\nlater 1\n\n")
    assert "HTTP Request" not in later.text


@pytest.mark.promise("django-backend")
def test_server_that_does_not_answer_never_blocks_the_application(
    http_log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    client = RecordingClient(NotReached("no answer"))
    client.may_send.clear()
    logger, handler = a_logger(client, http_log, interval_seconds=0, close_seconds=0.01)
    for _ in range(100):
        logger.error("stuck")
    handler.close()  # It returns although nothing was sent.
    assert client.sent == []
    client.may_send.set()
    assert client.has_sent.wait(60)
    for thread in threading.enumerate():
        if thread.name == "mailwright-log":
            thread.join(60)
    assert "log records were not sent: no answer" in capsys.readouterr().err
