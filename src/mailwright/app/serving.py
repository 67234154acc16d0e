"""Run the API and a worker in one process and one event loop until a signal."""

import asyncio
import contextlib
import gc
import logging
import os
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import cache
from typing import Any

import uvicorn
from uvicorn.importer import import_from_string

from mailwright.app.app_switch import AppSwitch
from mailwright.app.feed_reader import read_due_feeds, run_feed_reader
from mailwright.app.generations import follow_settings
from mailwright.app.http_protocol import TimedHttpProtocol
from mailwright.app.https_certificates import run_certificate_checks
from mailwright.app.images import run_image_purge
from mailwright.app.inbound import poll_inbound_sources
from mailwright.app.listening import address_of
from mailwright.app.mailouts import drain_mailouts, run_mailouts
from mailwright.app.outbound_webhooks import dispatch_due_webhooks, run_webhook_dispatcher
from mailwright.app.outbox_table import run_outbox_table
from mailwright.app.plugin_sources import run_plugin_sources
from mailwright.app.profiles import drain_profiles, run_profiles
from mailwright.app.quotas import run_quota_syncs
from mailwright.app.restore_checks import DatabaseGuard, open_attempt_recorder
from mailwright.app.retention import run_retention
from mailwright.app.sender_domains import run_domain_checks
from mailwright.app.shutdown import Shutdown
from mailwright.app.size_recorder import run_size_recorder
from mailwright.app.submission import SubmissionSockets, run_submission
from mailwright.app.wiring import Engine, make_workers
from mailwright.audience.event_schema import EventSchemaCounter
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.events.tracking.drain import SpoolDrain
from mailwright.ops.child_process import runs_duties, this_child
from mailwright.ops.logs import logger
from mailwright.ops.paused_collection import paused_collection
from mailwright.ops.periodic import run_periodically
from mailwright.ops.settings import DRY_RUN_NOTICE
from mailwright.ops.unknown_settings import find_unknown_settings
from mailwright.outbox.attempt_recorder import AttemptRecorder
from mailwright.outbox.tallies import EventTallier
from mailwright.storage.server_settings import find_unsafe_settings
from mailwright.worker.worker import WorkerGroup

UPKEEP_SECONDS = 60.0

log = logger(__name__)

# This layer cannot import the web layer above it, so the server loads the web application by this import string. The
# function takes the engine and returns the HTTP application.
WEB_APPLICATION = "mailwright.web.app:create_app"


async def serve(
    engine: Engine,
    listener: socket.socket,
    shutdown: Shutdown,
    *,
    with_worker: bool,
    submission: SubmissionSockets | None = None,
) -> None:
    """Serve until stopped. If the worker fails, the process ends, so that its supervisor restarts it."""
    await _log_start(engine)
    guard = await _checked_guard(engine)
    recorder = open_attempt_recorder(engine.settings, engine.database) if with_worker else None
    switch = AppSwitch()
    server = _Server(_configuration(engine, switch))
    create_app = _import_web_application()
    _capture_library_logs()
    _freeze_loaded_modules()
    shutdown.calls(server.stop)

    async def listen() -> None:
        await switch.ready.wait()
        log.info("api_started", address=address_of(listener), worker=with_worker)
        _report_started()
        await server.serve(sockets=[listener])

    async def serve_with(current: Engine, stopping: Shutdown) -> None:
        worker = await _make_usable_worker(current, recorder) if with_worker else None
        await _serve_with(current, stopping, switch, create_app, worker=worker, submission=submission)

    async with asyncio.TaskGroup() as tasks:
        _run_until_stopped(tasks, _run_guard(guard), shutdown)
        if runs_duties():
            _run_until_stopped(tasks, EventTallier(engine.database, engine.clock).run(), shutdown)
        tasks.create_task(listen(), name="api")
        await follow_settings(engine, shutdown, serve_with)
    log.info("api_stopped")


async def _serve_with(
    engine: Engine,
    stopping: Shutdown,
    switch: AppSwitch,
    create_app: Callable[[Engine], Any],
    *,
    worker: WorkerGroup | None,
    submission: SubmissionSockets | None,
) -> None:
    """Serve with one engine until stopped, and finish the requests that have begun."""
    async with asyncio.TaskGroup() as tasks:
        if runs_duties():
            _run_until_stopped(tasks, _run_background_duties(engine), stopping)
        working = tasks.create_task(_work(worker, stopping), name="worker") if worker else None
        is_worker_alive = (lambda: not working.done()) if working else None
        api = create_app(replace(engine, is_worker_alive=is_worker_alive))
        stopping.calls(api.state.stop)
        _run_until_stopped(tasks, _run_upkeep(api), stopping)
        if submission is not None:
            _run_until_stopped(tasks, run_submission(engine, submission), stopping)
        drain = SpoolDrain(engine.database, engine.clock, engine.reports, engine.redirects)
        _run_until_stopped(tasks, drain.run(), stopping)
        requests = switch.use(api)
        await stopping.wait()
    await requests.wait_until_finished(engine.settings.shutdown_grace_seconds)
    await api.state.finish()


def _import_web_application() -> Callable[[Engine], Any]:
    with paused_collection():
        application: Callable[[Engine], Any] = import_from_string(WEB_APPLICATION)
    return application


async def accept_over_smtp(engine: Engine, sockets: SubmissionSockets, shutdown: Shutdown) -> None:
    """Accept email over SMTP until stopped. Workers in other processes send the messages."""
    _capture_library_logs()
    _freeze_loaded_modules()
    await _log_start(engine)

    async def accept_with(current: Engine, stopping: Shutdown) -> None:
        async with asyncio.TaskGroup() as tasks:
            _run_until_stopped(tasks, run_submission(current, sockets), stopping)
            _report_started()

    await follow_settings(engine, shutdown, accept_with)


async def work(engine: Engine, shutdown: Shutdown, *, drain: bool) -> None:
    """Run a worker until stopped; with `drain`, until nothing is due."""
    _capture_library_logs()
    _freeze_loaded_modules()
    await _log_start(engine)
    guard = await _checked_guard(engine)
    recorder = open_attempt_recorder(engine.settings, engine.database)
    if drain:
        if engine.settings_problems:
            raise ConfigurationInvalid(*engine.settings_problems)
        await _drain(engine, await make_workers(engine, recorder), shutdown)
        return

    async def work_with(current: Engine, stopping: Shutdown) -> None:
        await _work_with(current, stopping, await _make_usable_worker(current, recorder))

    async with asyncio.TaskGroup() as tasks:
        _run_until_stopped(tasks, _run_guard(guard), shutdown)
        await follow_settings(engine, shutdown, work_with)


async def _work_with(engine: Engine, stopping: Shutdown, worker: WorkerGroup | None) -> None:
    """Work with one engine until stopped, and finish the sends that have begun."""
    async with asyncio.TaskGroup() as tasks:
        if runs_duties():
            _run_until_stopped(tasks, _run_background_duties(engine), stopping)
        if worker is not None:
            await _work(worker, stopping)
        await stopping.wait()


async def _make_usable_worker(engine: Engine, recorder: AttemptRecorder | None) -> WorkerGroup | None:
    """Return a worker, or None if it is unclear how to send: a message must not go through the wrong provider."""
    if not engine.settings_problems:
        return await make_workers(engine, recorder)
    for problem in engine.settings_problems:
        log.error("settings_unusable", problem=problem, message="Nothing is sent until this is corrected.")
    return None


async def _checked_guard(engine: Engine) -> DatabaseGuard:
    """Create the guard, and compare the database with what this machine knows before anything is sent."""
    guard = DatabaseGuard(engine.settings, engine.database, engine.clock, engine.valkey)
    await guard.check()
    return guard


def _run_guard(guard: DatabaseGuard) -> Coroutine[Any, Any, None]:
    return guard.run() if runs_duties() else guard.run_failovers()


async def _log_start(engine: Engine) -> None:
    """Log environment variables that look like settings but have no effect, a dry run, and unsafe databases."""
    for unknown in find_unknown_settings(os.environ):
        log.warning("unknown_setting", setting=unknown.name, problem=unknown.problem)
    if engine.settings.dry_run:
        log.warning("dry_run", message=DRY_RUN_NOTICE)
    with contextlib.suppress(NotDurable):  # The parts that need the database report the outage.
        for each in await find_unsafe_settings(engine.database):
            log.warning("unsafe_database_setting", setting=each.name, value=each.value, risk=each.risk)


async def _drain(engine: Engine, worker: WorkerGroup, shutdown: Shutdown) -> None:
    async with asyncio.TaskGroup() as tasks:
        await read_due_feeds(engine.database, engine.clock)
        await drain_mailouts(engine.mailouts)  # Enqueue due messages first.
        await drain_profiles(engine.profiles, engine.database, engine.clock)
        await _work(worker, shutdown, drain=True)
        await drain_mailouts(engine.mailouts)  # Write the results back afterwards.
        await drain_profiles(engine.profiles, engine.database, engine.clock)
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


async def _run_upkeep(api: Any) -> None:
    await run_periodically(
        "api_upkeep", api.state.run_upkeep, seconds=UPKEEP_SECONDS, logs_expected=False, raises_unexpected=True
    )


async def _run_background_duties(engine: Engine) -> None:
    """Run the work that does not depend on messages: reports, quotas, webhooks, mailouts, retention and so on.

    A cancelled task group waits until every duty has ended. The caller then closes the database that they use.
    """
    settings, database, clock = engine.settings, engine.database, engine.clock
    async with asyncio.TaskGroup() as duties:
        for duty in (
            poll_inbound_sources(settings, database, clock, engine.reports, engine.acceptor),
            run_quota_syncs(settings, database, clock, engine.named),
            run_webhook_dispatcher(settings, database, clock),
            run_feed_reader(database, clock),
            run_mailouts(engine.mailouts, database, clock),
            run_profiles(engine.profiles, database, clock),
            run_retention(settings, database, clock),
            run_image_purge(engine.images, database, clock),
            run_size_recorder(database, clock),
            run_certificate_checks(settings, database, clock),
            run_outbox_table(engine),
            run_plugin_sources(engine),
            run_domain_checks(engine.sender_domains, database, clock),
            EventSchemaCounter(database).run(),
        ):
            duties.create_task(duty)


async def _work(worker: WorkerGroup, shutdown: Shutdown, *, drain: bool = False) -> None:
    shutdown.calls(worker.stop)
    log.info("worker_started", drain=drain)
    _report_started()
    await worker.run(drain=drain)
    log.info("worker_stopped")


@cache
def _report_started() -> None:
    """Report the start once per process, when its first service has started."""
    if (child := this_child()) is not None:
        with contextlib.suppress(OSError):  # The supervisor has ended, and the lifeline stops this process.
            child.report_started()


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to `Shutdown`, which also stops the worker."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    def stop(self) -> None:
        self.should_exit = True


def _configuration(engine: Engine, switch: AppSwitch) -> uvicorn.Config:
    return uvicorn.Config(
        app=switch,
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
