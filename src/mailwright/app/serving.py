"""Run the API and a worker in one process and one event loop until a signal."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cache
from typing import Any

import uvicorn
from uvicorn.importer import import_from_string

from mailwright.app.addresses import wait_until_moved
from mailwright.app.http_protocol import TimedHttpProtocol
from mailwright.app.inbound import poll_inbound_sources
from mailwright.app.listening import address_of
from mailwright.app.mailouts import drain_mailouts, run_mailouts
from mailwright.app.outbound_webhooks import dispatch_due_webhooks, run_webhook_dispatcher
from mailwright.app.outbox_table import run_outbox_table
from mailwright.app.quotas import run_quota_sync
from mailwright.app.restore_checks import check_for_restore, make_guard, run_guard
from mailwright.app.retention import run_retention
from mailwright.app.size_recorder import run_size_recorder
from mailwright.app.submission import SubmissionSockets, run_submission
from mailwright.app.wiring import Engine, make_worker
from mailwright.domain.errors import NotDurable
from mailwright.events.tracking.drain import SpoolDrain
from mailwright.ops.child_process import runs_duties, this_child
from mailwright.ops.logs import logger
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import DRY_RUN_NOTICE, Settings
from mailwright.ops.unknown_settings import find_unknown_settings
from mailwright.outbox.restore_guard import RestoreGuard
from mailwright.outbox.tallies import EventTallier
from mailwright.storage.server_settings import find_unsafe_settings
from mailwright.worker.worker import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_AFTER_SECONDS = 60.0

log = logger(__name__)

# This layer cannot import the web layer above it, so the server loads the web application by this import string. The
# function takes the engine and returns the HTTP application.
WEB_APPLICATION = "mailwright.web.app:create_app"


class Shutdown:
    """The first signal starts a graceful shutdown; a second one ends the process at once."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], None]] = []
        self._is_requested = False

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._receive, number)
        if (child := this_child()) is not None:
            loop.add_reader(child.lifeline, self._notice_lost_supervisor, child.lifeline)

    def calls(self, stop: Callable[[], None]) -> None:
        """Call `stop` at the first signal, or at once if a signal has already arrived."""
        self._stops.append(stop)
        if self._is_requested:
            stop()

    def request(self) -> None:
        self._is_requested = True
        for stop in self._stops:
            stop()

    def _notice_lost_supervisor(self, lifeline: int) -> None:
        """Shut down as after a signal, because nothing would restart, measure or stop this process."""
        asyncio.get_running_loop().remove_reader(lifeline)
        log.error("supervisor_lost", message="Finishing work in progress.")
        self.request()

    def _receive(self, number: signal.Signals) -> None:
        if self._is_requested:
            os._exit(128 + number)
        log.info("stopping", signal=number.name, message="Finishing work in progress. A second signal stops at once.")
        self.request()


async def serve(
    engine: Engine,
    listener: socket.socket,
    shutdown: Shutdown,
    *,
    with_worker: bool,
    submission: SubmissionSockets | None = None,
) -> None:
    """Serve until stopped. If the worker fails, the process ends, so that its supervisor restarts it."""
    create_app = import_from_string(WEB_APPLICATION)
    _log_settings(engine.settings)
    await _log_unsafe_settings(engine)
    guard = await _checked_guard(engine)
    worker = await make_worker(engine) if with_worker else None
    server = _Server(_configuration(engine))
    _capture_library_logs()
    _freeze_loaded_modules()
    shutdown.calls(server.stop)
    async with asyncio.TaskGroup() as tasks:
        if runs_duties():
            _run_until_stopped(tasks, _run_background_duties(engine), shutdown)
            _run_until_stopped(tasks, run_guard(guard, engine.database, engine.clock), shutdown)
            _run_until_stopped(tasks, EventTallier(engine.database, engine.clock).run(), shutdown)
        working = tasks.create_task(_work(worker, shutdown), name="worker") if worker else None
        is_worker_alive = (lambda: not working.done()) if working else None
        server.config.app = api = create_app(replace(engine, is_worker_alive=is_worker_alive))
        shutdown.calls(api.state.stop)
        _run_until_stopped(tasks, _look_after(api), shutdown)
        if submission is not None:
            _run_until_stopped(tasks, run_submission(engine, submission), shutdown)
        drain = SpoolDrain(engine.database, engine.clock, engine.reports, engine.redirects)
        _run_until_stopped(tasks, drain.run(), shutdown)
        tasks.create_task(server.serve(sockets=[listener]), name="api")
        log.info("api_started", address=address_of(listener), worker=with_worker)
        _report_started()
    await api.state.finish()
    log.info("api_stopped")


async def accept_over_smtp(engine: Engine, sockets: SubmissionSockets, shutdown: Shutdown) -> None:
    """Accept email over SMTP until stopped. Workers in other processes send the messages."""
    _capture_library_logs()
    _freeze_loaded_modules()
    _log_settings(engine.settings)
    await _log_unsafe_settings(engine)
    async with asyncio.TaskGroup() as tasks:
        _run_until_stopped(tasks, run_submission(engine, sockets), shutdown)
        _report_started()


async def work(engine: Engine, shutdown: Shutdown, *, drain: bool) -> bool:
    """Run a worker until stopped; with `drain`, until nothing is due.

    Return True if it stopped because the server's address changed. The caller then opens the engine again, so that
    links use the new address.
    """
    _capture_library_logs()
    _freeze_loaded_modules()
    _log_settings(engine.settings)
    await _log_unsafe_settings(engine)
    guard = await _checked_guard(engine)
    worker = await make_worker(engine)
    if drain:
        await _drain(engine, worker, shutdown)
        return False
    async with asyncio.TaskGroup() as tasks:
        duties = (
            (_run_background_duties(engine), run_guard(guard, engine.database, engine.clock)) if runs_duties() else ()
        )
        background = [_run_until_stopped(tasks, duty, shutdown) for duty in duties]
        following = _run_until_stopped(tasks, _follow(engine, worker), shutdown)
        await _work(worker, shutdown)
        for task in background:
            task.cancel()
        # cancel() returns False if the task has already ended.
        return not following.cancel() and not following.cancelled()


async def _checked_guard(engine: Engine) -> RestoreGuard:
    """Create the restore guard, and compare the database with its markers before anything is sent."""
    guard = make_guard(engine.settings, engine.database, engine.clock, engine.valkey)
    await check_for_restore(guard, engine.database, engine.clock)
    return guard


def _log_settings(settings: Settings) -> None:
    """Log environment variables that look like settings but have no effect, and report a dry run."""
    for unknown in find_unknown_settings(os.environ):
        log.warning("unknown_setting", setting=unknown.name, problem=unknown.problem)
    if settings.dry_run:
        log.warning("dry_run", message=DRY_RUN_NOTICE)


async def _log_unsafe_settings(engine: Engine) -> None:
    with contextlib.suppress(NotDurable):  # The parts that need the database report the outage.
        for name, risk in (await find_unsafe_settings(engine.database)).items():
            log.warning("unsafe_database_setting", setting=name, value="off", risk=risk)


async def _drain(engine: Engine, worker: Worker, shutdown: Shutdown) -> None:
    async with asyncio.TaskGroup() as tasks:
        await drain_mailouts(engine.mailouts)  # Enqueue due messages first.
        await _work(worker, shutdown, drain=True)
        await drain_mailouts(engine.mailouts)  # Write the results back afterwards.
        _run_until_stopped(tasks, dispatch_due_webhooks(engine.settings, engine.database, engine.clock), shutdown)


def _run_until_stopped(
    tasks: asyncio.TaskGroup, duty: Coroutine[Any, Any, None], shutdown: Shutdown
) -> asyncio.Task[None]:
    """Run a background task and cancel it at the first signal. The next process continues its work."""
    task = tasks.create_task(duty)

    def stop() -> None:
        task.cancel()

    shutdown.calls(stop)
    return task


async def _look_after(api: Any) -> None:
    await run_periodically(
        "api_upkeep", api.state.look_after, seconds=LOOK_AFTER_SECONDS, logs_expected=False, raises_unexpected=True
    )


async def _run_background_duties(engine: Engine) -> None:
    """Run the work that does not depend on messages: reports, quotas, webhooks, mailouts, outbox tables, retention."""
    await asyncio.gather(
        poll_inbound_sources(engine.settings, engine.database, engine.clock, engine.reports, engine.acceptor),
        run_quota_sync(engine.settings, engine.database, engine.clock),
        run_webhook_dispatcher(engine.settings, engine.database, engine.clock),
        run_mailouts(engine.mailouts, engine.database, engine.clock),
        run_retention(engine.settings, engine.database, engine.clock),
        run_size_recorder(engine.database, engine.clock),
        run_outbox_table(engine),
    )


async def _follow(engine: Engine, worker: Worker) -> None:
    address = await wait_until_moved(engine.settings, engine.database)
    log.info("server_moved", address=address, message="The worker restarts so that links use the new address.")
    worker.stop()


async def _work(worker: Worker, shutdown: Shutdown, *, drain: bool = False) -> None:
    shutdown.calls(worker.stop)
    log.info("worker_started", drain=drain)
    _report_started()
    await worker.run(drain=drain)
    log.info("worker_stopped")


@cache
def _report_started() -> None:
    """Report once per process, whatever starts first in it."""
    if (child := this_child()) is not None:
        with contextlib.suppress(OSError):  # The supervisor has ended, and the lifeline stops this process.
            child.report_started()


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to `Shutdown`, which also stops the worker."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    def stop(self) -> None:
        self.should_exit = True


def _configuration(engine: Engine) -> uvicorn.Config:
    return uvicorn.Config(
        app="",
        http=TimedHttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=engine.settings.shutdown_grace_seconds,
    )


def _freeze_loaded_modules() -> None:
    """Exclude loaded modules from garbage collection, which took a tenth of the time to accept a batch."""
    gc.collect()
    gc.freeze()


class _LibraryLogs(logging.Handler):
    """Logs library messages in our format, with secrets removed."""

    def emit(self, record: logging.LogRecord) -> None:
        log.log(record.levelno, "library", library=record.name, message=record.getMessage(), exc_info=record.exc_info)


def _capture_library_logs() -> None:
    logging.basicConfig(handlers=[_LibraryLogs(logging.WARNING)], level=logging.WARNING, force=True)
