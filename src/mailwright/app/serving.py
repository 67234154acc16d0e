"""Serving: the API and a worker in one process and one event loop, from the first request to the last signal."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import uvicorn
from uvicorn.importer import import_from_string

from mailwright.app.addresses import wait_until_moved
from mailwright.app.inbound import poll_inbound_sources
from mailwright.app.mailouts import drain_mailouts, run_mailouts
from mailwright.app.outbound_webhooks import dispatch_due_webhooks, run_webhook_dispatcher
from mailwright.app.quotas import run_quota_sync
from mailwright.app.wiring import Engine, make_worker
from mailwright.domain.errors import ConfigurationInvalid, NotDurable
from mailwright.ops.logs import logger
from mailwright.outbox.tallies import EventTallier
from mailwright.worker.loop import Worker

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Connections that the kernel keeps for us while the loop is busy.
BACKLOG = 2_048
LOOK_AFTER_SECONDS = 60.0

log = logger(__name__)

# The web layer is above this one, so the server loads it by an import string, as uvicorn does on its command line.
# It takes the engine and returns the HTTP application.
WEB_APPLICATION = "mailwright.web.app:create_app"


class Shutdown:
    """The first signal asks everyone to finish; a second one ends the process at once."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], None]] = []
        self._is_asked = False

    def listen(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._receive, number)

    def calls(self, stop: Callable[[], None]) -> None:
        """`stop` is called at the first signal, or now if that has come already."""
        self._stops.append(stop)
        if self._is_asked:
            stop()

    def request(self) -> None:
        self._is_asked = True
        for stop in self._stops:
            stop()

    def _receive(self, number: signal.Signals) -> None:
        if self._is_asked:
            os._exit(128 + number)
        log.info("stopping", signal=number.name, message="Finishing what is under way; a second signal ends at once.")
        self.request()


async def serve(engine: Engine, listener: socket.socket, shutdown: Shutdown, *, with_worker: bool) -> None:
    """Answers requests until it is told to stop. Should the worker break, the process ends: others must notice."""
    create_app = import_from_string(WEB_APPLICATION)
    worker = await make_worker(engine) if with_worker else None
    server = _Server(_configuration(engine))
    _hear_library_logs()
    _keep_what_is_loaded()
    shutdown.calls(server.stop)
    async with asyncio.TaskGroup() as tasks:
        _until_told(tasks, _beside_the_mail(engine), shutdown)
        working = tasks.create_task(_work(worker, shutdown), name="worker") if worker else None
        is_worker_alive = (lambda: not working.done()) if working else None
        server.config.app = api = create_app(replace(engine, is_worker_alive=is_worker_alive))
        shutdown.calls(api.state.stop)
        _until_told(tasks, _look_after(api), shutdown)
        _until_told(tasks, EventTallier(engine.database, engine.clock).run(), shutdown)
        tasks.create_task(server.serve(sockets=[listener]), name="api")
        log.info("api_started", address=address_of(listener), worker=with_worker)
    await api.state.finish()
    log.info("api_stopped")


async def work(engine: Engine, shutdown: Shutdown, *, drain: bool) -> bool:
    """A worker alone, until it is told to stop; with `drain`, until nothing is due.

    True if it stopped because the server has moved: whoever asked opens the engine anew, so that links lead there.
    """
    _hear_library_logs()
    _keep_what_is_loaded()
    worker = await make_worker(engine)
    if drain:
        await _drain(engine, worker, shutdown)
        return False
    async with asyncio.TaskGroup() as tasks:
        attending = _until_told(tasks, _beside_the_mail(engine), shutdown)
        following = _until_told(tasks, _follow(engine, worker), shutdown)
        await _work(worker, shutdown)
        attending.cancel()
        # One that has ended cannot be cancelled any more.
        return not following.cancel() and not following.cancelled()


async def _drain(engine: Engine, worker: Worker, shutdown: Shutdown) -> None:
    async with asyncio.TaskGroup() as tasks:
        await drain_mailouts(engine.mailouts)  # what is to be sent
        await _work(worker, shutdown, drain=True)
        await drain_mailouts(engine.mailouts)  # what is to be reported
        _until_told(tasks, dispatch_due_webhooks(engine.settings, engine.database, engine.clock), shutdown)


def _until_told(tasks: asyncio.TaskGroup, duty: Coroutine[Any, Any, None], shutdown: Shutdown) -> asyncio.Task[None]:
    """What is found after the first signal is found again by whoever looks next."""
    doing = tasks.create_task(duty)

    def stop() -> None:
        doing.cancel()

    shutdown.calls(stop)
    return doing


async def _look_after(api: Any) -> None:
    while True:
        with contextlib.suppress(NotDurable):  # it is looked at again
            await api.state.look_after()
        await asyncio.sleep(LOOK_AFTER_SECONDS)


async def _beside_the_mail(engine: Engine) -> None:
    """What came back, what the providers still take, and whom to tell what happened."""
    await asyncio.gather(
        poll_inbound_sources(engine.settings, engine.reports, engine.clock),
        run_quota_sync(engine.settings, engine.database, engine.clock),
        run_webhook_dispatcher(engine.settings, engine.database, engine.clock),
        run_mailouts(engine.mailouts, engine.database, engine.clock),
    )


async def _follow(engine: Engine, worker: Worker) -> None:
    address = await wait_until_moved(engine.settings, engine.database)
    log.info("server_moved", address=address, message="The worker begins anew: links lead there from now on.")
    worker.stop()


async def _work(worker: Worker, shutdown: Shutdown, *, drain: bool = False) -> None:
    shutdown.calls(worker.stop)
    log.info("worker_started", drain=drain)
    await worker.run(drain=drain)
    log.info("worker_stopped")


def listen(host: str, port: int) -> socket.socket:
    """Takes the port before anything is started, so that a taken one is told in a sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error.strerror)
        raise ConfigurationInvalid(
            f"MAILWRIGHT_HOST, MAILWRIGHT_PORT: cannot listen on {host}:{port}: {reason}; choose another with --port"
        ) from error


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Leaves signals to `Shutdown`, which must tell the worker as well."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()

    def stop(self) -> None:
        self.should_exit = True


def _configuration(engine: Engine) -> uvicorn.Config:
    return uvicorn.Config(
        app="",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=engine.settings.shutdown_grace_seconds,
    )


def _keep_what_is_loaded() -> None:
    """Modules and classes live as long as the process: looking through them for garbage again and again took a tenth of
    the time in which a batch is accepted."""
    gc.collect()
    gc.freeze()


class _LibraryLogs(logging.Handler):
    """What libraries log becomes a line of ours, scrubbed like the others."""

    def emit(self, record: logging.LogRecord) -> None:
        log.log(record.levelno, "library", library=record.name, message=record.getMessage(), exc_info=record.exc_info)


def _hear_library_logs() -> None:
    logging.basicConfig(handlers=[_LibraryLogs(logging.WARNING)], level=logging.WARNING, force=True)
