"""Fixtures that run every storage, queue and policy test on SQLite and on a real PostgreSQL."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from email.headerregistry import HeaderRegistry
from functools import cache, lru_cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop
from argon2 import PasswordHasher
from hypothesis import settings
from structlog.dev import ConsoleRenderer, plain_traceback

from mailwright.access import passwords
from mailwright.audience import form_protection
from mailwright.content import dkim_key
from mailwright.domain.clock import ManualClock
from mailwright.storage import database as database_
from mailwright.storage.database import Database
from mailwright.storage.postgresql import PostgresqlDialect
from mailwright.storage.secret_box import SecretBox
from tests import examples  # noqa: F401 - registers the profiles
from tests.builders import SECRET_KEY, Bench, a_bench
from tests.engine_twins import StatementSites, without_twins
from tests.engines import PostgresServer, Valkey, postgresql, sqlite_template, valkey_server
from tests.pgbouncer import pgbouncer

ENGINES = ["sqlite", "postgresql"]

STATEMENT_SITES = StatementSites()

# The least work that argon2id accepts. Production needs 800 times as long.
QUICK_HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

# The default one shows all local variables in color, which takes half a second for each logged error.
ConsoleRenderer.get_active().exception_formatter = plain_traceback

# Without this, httpx searches for a package that is not installed in each request.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


# The default handler would let the event loop of each test install its own, and describe all that the test uses for an
# error message that nobody sees.
signal.signal(signal.SIGINT, _interrupt)

gc.disable()  # While the tests are collected, almost nothing becomes garbage.

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))


def pytest_xdist_auto_num_workers() -> int:
    """Use more workers than there are processors: many tests wait for other processes or for time to pass."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return processors + max(2, processors // 2)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each worker import its share of the test modules first.

    All workers collect the same modules in the same order. In a new checkout each of them would rewrite the assertions
    of every module, because none finds what another is only about to write.
    """
    if not hasattr(session.config, "workerinput"):
        return
    number, workers = (os.environ[f"PYTEST_XDIST_WORKER{what}"] for what in ("", "_COUNT"))
    modules = sorted(Path(__file__).parent.rglob("test_*.py"))
    wanted = [Path(argument.partition("::")[0]).resolve() for argument in session.config.args]
    for file in modules[int(number.removeprefix("gw")) :: int(workers)]:
        if any(file.is_relative_to(path) for path in wanted):
            # The collection reports what cannot be imported.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                import_module(".".join(file.relative_to(Path(__file__).parents[1]).with_suffix("").parts))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--both-engines", action="store_true", help="run tests of surfaces on PostgreSQL too")
    parser.addoption("--pgbouncer", action="store_true", help="put PgBouncer before each PostgreSQL database")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run workers with Valkey on PostgreSQL only. The ledger with Valkey grants the same permits on SQLite, as its own
    tests show. Run tests of surfaces on SQLite only."""
    items[:] = [item for item in items if item.path.name == "test_ledger.py" or not _is_valkey_on_sqlite(item)]
    if not config.getoption("--both-engines"):
        items[:] = without_twins(items)


def _is_valkey_on_sqlite(item: pytest.Item) -> bool:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return parameters.get("engine") == "sqlite" and "valkey" in parameters.values()


def pytest_collection_finish() -> None:
    """Exclude modules and tests from garbage collection, and collect less often: it took a tenth of the time."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def pytest_testnodedown(node: Any) -> None:
    """Collect what each test process recorded."""
    STATEMENT_SITES.merge(getattr(node, "workeroutput", {}).get("statement_sites", {}))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["statement_sites"] = {
            engine: [*map(list, sites)] for engine, sites in STATEMENT_SITES.seen.items()
        }
    elif _is_complete(config) and session.exitstatus == pytest.ExitCode.OK and STATEMENT_SITES.missing():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _is_complete(config) and (missing := STATEMENT_SITES.missing()):
        terminalreporter.section("statements that no test ran on PostgreSQL", red=True)
        terminalreporter.write_line("\n".join(missing))
        terminalreporter.write_line("Test them below the surface on both engines, or mark one test `both_engines`.")


def _is_complete(config: pytest.Config) -> bool:
    """Return whether the whole suite runs."""
    chosen = ("keyword", "markexpr", "lf", "both_engines", "collectonly")
    return config.args == config.getini("testpaths") and not any(config.getoption(name, None) for name in chosen)


@pytest.fixture(scope="session", autouse=True)
def recorded_statements() -> Iterator[None]:
    """Record which lines run statements on which engine, which costs a microsecond for each."""
    yield from STATEMENT_SITES.watch()


@pytest.fixture(scope="session")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    """Use the event loop of the services, which also takes less time."""
    return uvloop.EventLoopPolicy()


@pytest.fixture(scope="session", autouse=True)
def quick_passwords() -> Iterator[None]:
    """Hash passwords quickly. A test of the cost itself uses the fixture `production_hashing`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "password_hasher", lambda: QUICK_HASHER)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_commits() -> Iterator[None]:
    """Let SQLite not wait for the disk. Only a power failure needs that; a killed process loses nothing without it."""
    pragmas = ["synchronous = OFF" if each.startswith("synchronous") else each for each in database_.SQLITE_PRAGMAS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_, "SQLITE_PRAGMAS", pragmas)
        yield


@pytest.fixture(scope="session", autouse=True)
def known_postgresql() -> Iterator[None]:
    """Ask for the version and the defaults of PostgreSQL once, not in each test: all servers of the tests are alike."""
    initialize = PostgresqlDialect.initialize
    answers: dict[str, Any] = {}

    def initialize_once(dialect: PostgresqlDialect, connection: Any) -> None:
        if not answers:
            before = dict(vars(dialect))
            initialize(dialect, connection)
            answers.update({name: value for name, value in vars(dialect).items() if before.get(name) != value})
        vars(dialect).update(answers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostgresqlDialect, "initialize", initialize_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def few_dkim_keys() -> Iterator[None]:
    """Give domains four real RSA keys in turn. To generate one takes longer than most tests."""
    generate = dkim_key.new_private_key
    keys = cache(lambda turn: generate())
    turns = count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            dkim_key, "new_private_key", lambda kind="rsa": keys(next(turns) % 4) if kind == "rsa" else generate(kind)
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def headers_parsed_once() -> Iterator[None]:
    """Parse a header with the same text once. Each access to a header, or to the type of a part, parses it again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HeaderRegistry, "__call__", lru_cache(4096)(HeaderRegistry.__call__))
        yield


@pytest.fixture(scope="session", autouse=True)
def certificates_loaded_once() -> Iterator[None]:
    """Let the HTTP clients of tests share a TLS context. To load the trusted certificates takes a tenth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("httpx._transports.default.create_ssl_context", cache(httpx.create_ssl_context))
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with postgresql() as server:
        yield server


@pytest.fixture(scope="session")
def empty_sqlite() -> bytes:
    return sqlite_template()


@dataclass(frozen=True)
class DatabaseAddress:
    """The database of a test, which other processes can open by its URL."""

    name: str
    url: str


@pytest.fixture(params=ENGINES)
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DatabaseAddress]:
    if request.param == "sqlite":
        file = tmp_path / "mailwright.db"
        file.write_bytes(request.getfixturevalue("empty_sqlite"))
        yield DatabaseAddress("sqlite", f"sqlite:///{file}")
    else:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = await server.create()
        has_pooler = request.config.getoption("--pgbouncer")
        with pgbouncer(url, "transaction") if has_pooler else contextlib.nullcontext(url) as address:
            yield DatabaseAddress("postgresql", address)
        await server.drop(url)


@pytest.fixture
async def database(engine: DatabaseAddress) -> AsyncIterator[Database]:
    database = Database(engine.url, secret_box=SecretBox(SECRET_KEY))
    yield database
    await database.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bench(engine: DatabaseAddress, clock: ManualClock) -> AsyncIterator[Bench]:
    async with a_bench(engine.url, clock) as bench:
        yield bench


@pytest.fixture(scope="session")
def valkey_process() -> Iterator[Valkey]:
    with valkey_server() as server:
        yield server


@pytest.fixture
def valkey(valkey_process: Valkey) -> Valkey:
    valkey_process.flush()
    return valkey_process


@pytest.fixture
def quick_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the proof of work of sign-ups take a moment only."""
    monkeypatch.setattr(form_protection, "DIFFICULTY_BITS", 4)
