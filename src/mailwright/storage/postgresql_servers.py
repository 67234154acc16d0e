"""Connect to the first suitable server of a PostgreSQL URL, and notice poolers, and servers that vanish."""

import os
import random
import secrets
import socket
import ssl
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

import asyncpg
from asyncpg.exceptions import TargetServerAttributeNotMatched
from sqlalchemy.engine import URL

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.storage.postgresql_connection import DriverConnection, PooledConnection
from mailwright.storage.postgresql_passfile import find_password
from mailwright.storage.postgresql_url import DEFAULT_PORT, Server, servers_of

# A server that does not respond for this long is left for the next one.
CONNECT_SECONDS: Final = 4
_NEXT_HOST_SECONDS: Final = 2
# The wait for a vanished server, which sends no end of the connection: 3 s without a byte, then a probe per second.
# macOS and Windows lack some of these options.
_PROBES: Final = (
    ("keepalives_idle", "TCP_KEEPIDLE", 3),
    ("keepalives_interval", "TCP_KEEPINTVL", 1),
    ("keepalives_count", "TCP_KEEPCNT", 3),
    ("tcp_user_timeout", "TCP_USER_TIMEOUT", 6_000),
)
_PASSED_ON: Final = (
    "passfile",
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "sslpassword",
    "sslcrl",
    "sslnegotiation",
    "ssl_min_protocol_version",
    "ssl_max_protocol_version",
    "krbsrvname",
    "gsslib",
)
# Override the server's defaults, so that an accepted message is always on disk.
_EACH_TRANSACTION: Final = {"synchronous_commit": "on", "jit": "off"}
_CONNECTION_SETTINGS: Final = {
    # A worker that vanishes must not keep its locks: the server probes the connection, too.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


# As in libpq, a refused sign-in does not lead to the next server.
_NEXT_SERVER: Final = (OSError, TargetServerAttributeNotMatched, asyncpg.CannotConnectNowError)
# PgBouncer refuses settings of the connection with this text, unless its `ignore_startup_parameters` names them.
_REFUSED_SETTING: Final = "unsupported startup parameter"
# Its refusal of transactions in the pool mode `statement`.
_NO_TRANSACTIONS: Final = "transaction blocks not allowed"


class PostgresqlServers:
    """The servers of a URL, tried in turn; the first one is the last that was suitable."""

    def __init__(self, url: URL) -> None:
        query = {name: str(value) for name, value in url.query.items()}
        self._servers: list[Server | None] = [*servers_of(url)] or [None]
        if query.get("load_balance_hosts") == "random":
            random.shuffle(self._servers)
        self._seconds = float(query.get("connect_timeout") or 0)
        # With several servers one of them is a standby, which cannot store anything.
        default = "any" if len(self._servers) == 1 else "read-write"
        wanted = query.get("target_session_attrs", default)
        self._wanted = ("standby", "any") if wanted == "prefer-standby" else (wanted,)
        self._port = query.get("port")
        self._login = {"user": url.username, "password": url.password or None, "database": url.database}
        self._passfile = Path(query.get("passfile") or os.environ.get("PGPASSFILE") or "~/.pgpass").expanduser()
        self._settings = _names(query)
        # Whether each server is behind a connection pooler, and whether that keeps prepared statements.
        self._poolers: dict[Server | None, Pooler] = {}
        self._tls = _tls(query)
        self._dsn = str(URL.create("postgresql", query={name: query[name] for name in _PASSED_ON if name in query}))
        self._probes = _probes(query)

    @property
    def has_pooler(self) -> bool:
        return any(pooler is not Pooler.NONE for pooler in self._poolers.values())

    @property
    def keeps_statements(self) -> bool:
        return Pooler.PLAIN not in self._poolers.values()

    async def connect(self, settings: dict[str, str] | None = None, **arguments: Any) -> DriverConnection:
        """Connect. `settings` are further server settings, `arguments` those of the driver."""
        problems: list[str] = []
        for wanted in self._wanted:
            for server in tuple(self._servers):
                try:
                    return await self._connect_to(server, wanted, settings or {}, arguments)
                except BaseException as error:
                    # The next connection begins with another server, also if this attempt was cancelled.
                    self._servers.remove(server)
                    self._servers.append(server)
                    is_other_role = isinstance(error, TargetServerAttributeNotMatched)
                    if not isinstance(error, _NEXT_SERVER) or (len(self._servers) == 1 and not is_other_role):
                        raise
                    problems.append(f"{server or 'the local server'}: {_reason(error, wanted)}")
        raise ConnectionError("; ".join(problems))

    async def _connect_to(
        self, server: Server | None, wanted: str, settings: dict[str, str], arguments: dict[str, Any]
    ) -> DriverConnection:
        pooler = self._poolers.get(server)
        if pooler is None:
            connection, pooler = await self._find_pooler(server, wanted, settings, arguments)
            self._poolers[server] = pooler
            if pooler is Pooler.NONE:
                return connection
            await connection.close()
        return await self._open(server, wanted, pooler, settings, arguments)

    async def _find_pooler(
        self, server: Server | None, wanted: str, settings: dict[str, str], arguments: dict[str, Any]
    ) -> "tuple[DriverConnection, Pooler]":
        """Connect, and return the kind of pooler. A pooler presents a process of its own instead of the server's."""
        try:
            connection = await self._open(server, wanted, Pooler.NONE, settings, arguments)
        except asyncpg.ProtocolViolationError as error:
            if _REFUSED_SETTING not in str(error):
                raise
        else:
            if await _returns_row(connection, f"WHERE pg_backend_pid() = {connection.get_server_pid()}"):
                return connection, Pooler.NONE
            await connection.close()
        connection = await self._open(server, wanted, Pooler.PLAIN, settings, arguments)
        try:
            return connection, await _kind_of_pooler(connection)
        except asyncpg.PostgresError as error:
            if _NO_TRANSACTIONS not in str(error):
                raise
            raise ConfigurationInvalid(
                "The connection pooler of the database allows single statements only. Mailwright needs transactions: "
                "set `pool_mode = transaction` in the pooler."
            ) from error

    async def _open(
        self, server: Server | None, wanted: str, pooler: "Pooler", settings: dict[str, str], arguments: dict[str, Any]
    ) -> DriverConnection:
        seconds = self._seconds or (CONNECT_SECONDS if len(self._servers) == 1 else _NEXT_HOST_SECONDS)
        each_transaction = {**_EACH_TRANSACTION, **settings}
        if pooler is Pooler.NONE:
            arguments = {
                **arguments,
                "connection_class": DriverConnection,
                "server_settings": {**self._settings, **_CONNECTION_SETTINGS, **each_transaction},
            }
        else:
            arguments = {**arguments, "connection_class": PooledConnection, "server_settings": self._settings}
            if pooler is Pooler.PLAIN:
                arguments["statement_cache_size"] = 0
        connection: DriverConnection = await asyncpg.connect(
            self._dsn,
            host=None if server is None else server.host,
            port=self._port if server is None else server.port,
            **self._login_at(server),
            **self._tls,
            timeout=seconds,
            target_session_attrs=wanted,
            **arguments,
        )
        connection.begins_with(each_transaction)
        connection.keeps_statements = pooler is not Pooler.PLAIN
        if server is not None and not server.is_socket:
            for option in self._probes:
                connection._transport.get_extra_info("socket").setsockopt(*option)
        return connection

    def _login_at(self, server: Server | None) -> dict[str, Any]:
        """Add the password of the password file, unless the address or a variable has one."""
        if self._login["password"] or os.environ.get("PGPASSWORD"):
            return self._login
        host, port = server or Server("localhost", int(self._port or DEFAULT_PORT))
        names = (str(self._login[each]) for each in ("database", "user"))
        return {**self._login, "password": find_password(self._passfile, host, port, *names)}


class Pooler(Enum):
    """A connection pooler before the server, such as PgBouncer. Its clients share connections between transactions."""

    NONE = auto()
    PLAIN = auto()
    KEEPS_STATEMENTS = auto()  # A prepared statement is there in each transaction of the client that prepared it.


async def _kind_of_pooler(connection: DriverConnection) -> Pooler:
    """Find out whether the pooler keeps prepared statements: it then gives them names of its own at the server."""
    name = f"mailwright_{secrets.token_hex(8)}"
    async with connection.transaction():
        await connection.prepare("SELECT 1", name=name)
        if not await _returns_row(connection, f"FROM pg_prepared_statements WHERE name = '{name}'"):
            return Pooler.KEEPS_STATEMENTS
        await connection.execute(f"DEALLOCATE {name}")
    return Pooler.PLAIN


async def _returns_row(connection: DriverConnection, rest: str) -> bool:
    """Run a query in one message, which needs no prepared statement."""
    tag: str = await connection.execute(f"SELECT 1 {rest}")
    return tag != "SELECT 0"


def _names(query: dict[str, str]) -> dict[str, str]:
    """Return the settings that a connection pooler passes on, too."""
    name = query.get("application_name") or query.get("fallback_application_name")
    settings = {"application_name": name or "mailwright"}
    if options := query.get("options"):
        settings["options"] = options
    return settings


def _tls(query: dict[str, str]) -> dict[str, Any]:
    """Return the TLS context if the driver cannot make it itself.

    The driver cannot bind the sign-in to the TLS connection. It is required to be sure of the server, so the server's
    certificate and name are verified instead.
    """
    is_bound = query.get("channel_binding") == "require"
    root = query.get("sslrootcert")
    if root != "system" and (not is_bound or query.get("sslmode") == "verify-full"):
        return {}
    context = ssl.create_default_context(cafile=None if root == "system" else root)
    if certificate := query.get("sslcert"):
        context.load_cert_chain(certificate, query.get("sslkey"), query.get("sslpassword"))
    return {"ssl": context}


def _probes(query: dict[str, str]) -> list[tuple[int, int, int]]:
    """Return the socket options that end the connection to a server that vanished."""
    if query.get("keepalives") == "0":
        return []
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, option, value in _PROBES:
        if hasattr(socket, option):
            options.append((socket.IPPROTO_TCP, getattr(socket, option), int(query.get(name) or value)))
    return options


def _reason(error: BaseException, wanted: str) -> str:
    match error:
        case TargetServerAttributeNotMatched():
            return f"is not {wanted}"
        case TimeoutError():
            return "no response"
        case _:
            return str(error)
