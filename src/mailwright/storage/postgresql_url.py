"""Read the address of a PostgreSQL database in every form that PostgreSQL's own programs read.

The result is a URL whose query has the names of libpq's parameters. What the text leaves open comes from the service
file and the `PG…` variables. Passwords outside the text stay outside the URL: the driver reads them when it connects.
"""

import difflib
import getpass
import os
import re
from collections.abc import Callable, Mapping
from configparser import Error as BadFile
from configparser import RawConfigParser
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from sqlalchemy.engine import URL

from mailwright.domain.errors import ConfigurationInvalid

DEFAULT_PORT: Final = 5432

_URL: Final = re.compile(
    r"postgres(?:ql)?(?:\+\w+)?://"
    r"(?:(?P<user>[^:/@?]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<hosts>[^/?]*)(?:/(?P<dbname>[^?]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_IS_URL: Final = re.compile(r"postgres(ql)?(\+\w+)?:")
_IS_WORDS: Final = re.compile(r"\s*\w+\s*=")
_WORD: Final = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)(?=\s|$)", re.DOTALL)
_NOT_AN_ADDRESS: Final = "not a database URL; use sqlite:///file.db or postgresql://user:password@host/name"

_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_SESSIONS: Final = ("any", "read-write", "read-only", "primary", "standby", "prefer-standby")


def _anything(_: str) -> str | None:
    return None


def _one_of(*values: str) -> Callable[[str], str | None]:
    return lambda value: None if value in values else f"must be {' or '.join(values)}"


def _whole_number(value: str) -> str | None:
    return None if value.isascii() and value.isdigit() else "must be a whole number"


def _file(value: str) -> str | None:
    return None if os.access(value, os.R_OK) else f"the file {value} does not exist or cannot be read"


def _root_certificate(value: str) -> str | None:
    return None if value == "system" else _file(value)


# The parameters that Mailwright understands, each with the rule for its value.
_PARAMETERS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "host": _anything,
    "hostaddr": _anything,
    "port": _anything,
    "user": _anything,
    "password": _anything,
    "dbname": _anything,
    "passfile": _anything,
    "service": _anything,
    "target_session_attrs": _one_of(*_SESSIONS),
    "load_balance_hosts": _one_of("disable", "random"),
    "connect_timeout": _whole_number,
    "application_name": _anything,
    "fallback_application_name": _anything,
    "options": _anything,
    "client_encoding": _one_of("utf8", "UTF8", "utf-8", "UTF-8", "auto"),
    "sslmode": _one_of(*_SSL_MODES),
    "sslrootcert": _root_certificate,
    "sslcert": _file,
    "sslkey": _file,
    "sslpassword": _anything,
    "sslcrl": _file,
    "sslnegotiation": _one_of("postgres", "direct"),
    "sslsni": _one_of("1"),
    "sslcompression": _one_of("0"),
    "ssl_min_protocol_version": _one_of(*_VERSIONS),
    "ssl_max_protocol_version": _one_of(*_VERSIONS),
    "channel_binding": _one_of("disable", "prefer", "require"),
    "gssencmode": _one_of("disable", "prefer"),
    "krbsrvname": _anything,
    "gsslib": _one_of("gssapi", "sspi"),
    "keepalives": _one_of("0", "1"),
    "keepalives_idle": _whole_number,
    "keepalives_interval": _whole_number,
    "keepalives_count": _whole_number,
    "tcp_user_timeout": _whole_number,
}
# Their values change nothing for this driver: it compresses nothing and always sends the host name.
_WITHOUT_EFFECT: Final = ("client_encoding", "gssencmode", "sslcompression", "sslsni")
_FROM_ENVIRONMENT: Final = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "user": "PGUSER",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "channel_binding": "PGCHANNELBINDING",
    "connect_timeout": "PGCONNECT_TIMEOUT",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
    "load_balance_hosts": "PGLOADBALANCEHOSTS",
    "application_name": "PGAPPNAME",
    "options": "PGOPTIONS",
}


class Server(NamedTuple):
    """One server of a URL. The host is a folder if the server listens on a Unix socket."""

    host: str
    port: int

    @property
    def is_socket(self) -> bool:
        return self.host.startswith(("/", "@"))

    def __str__(self) -> str:
        return self.host if self.is_socket else f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def looks_like_postgresql(text: str) -> bool:
    """Return whether the text is a PostgreSQL URL, or words such as `host=db dbname=mailwright`."""
    return bool(_IS_URL.match(text) or _IS_WORDS.match(text))


def parse_postgresql(text: str, environment: Mapping[str, str] = os.environ) -> URL:
    """Return the URL, in which the servers are named in one way whatever the form of the text."""
    given = _read_url(text) if _IS_URL.match(text) else _read_words(text)
    _check(given)
    if service := given.pop("service", environment.get("PGSERVICE", "")):
        found = _read_service(service, environment)
        _check(found)
        given = {**found, **given}
    for name, variable in _FROM_ENVIRONMENT.items():
        if name not in given and environment.get(variable):
            given[name] = environment[variable]
            _check({name: given[name]}, f" (from {variable})")
    for name in _WITHOUT_EFFECT:
        given.pop(name, None)
    _check_root(given)
    return _url_of(given)


def servers_of(url: URL) -> tuple[Server, ...]:
    """Return the servers of a parsed URL, in their order. It is empty if the driver looks for a local server itself."""
    if url.host:
        return (Server(url.host, url.port or DEFAULT_PORT),)
    hosts, ports = _list(url.query.get("host")), _list(url.query.get("port"))
    if len(ports) <= 1:
        ports = ports * len(hosts) or [""] * len(hosts)
    return tuple(Server(host, int(port or DEFAULT_PORT)) for host, port in zip(hosts, ports, strict=True))


def hosts_of(url: URL) -> str:
    """Return the hosts of a parsed URL as one text, whatever their order."""
    return url.host or ",".join(sorted(_list(url.query.get("host"))))


def shown(url: URL) -> str:
    """Return the URL without its passwords."""
    plain = url.difference_update_query(["sslpassword"]).set(drivername=url.get_backend_name())
    return plain.render_as_string(hide_password=True)


def _list(value: str | tuple[str, ...] | None) -> list[str]:
    return ",".join(value).split(",") if isinstance(value, tuple) else value.split(",") if value else []


def _read_url(text: str) -> dict[str, str]:
    match = _URL.fullmatch(text)
    if match is None:
        raise _invalid(_NOT_AN_ADDRESS)
    parts = {name: unquote(value) for name, value in match.groupdict().items() if value and name in _PARAMETERS}
    hosts = [_split_host(each) for each in (match["hosts"] or "").split(",")]
    if any(host or port for host, port in hosts):
        parts["host"] = ",".join(host for host, _ in hosts)
        if any(port for _, port in hosts):
            parts["port"] = ",".join(port for _, port in hosts)
    for pair in (match["query"] or "").split("&"):
        name, is_pair, value = pair.partition("=")
        if is_pair:
            parts[unquote(name)] = unquote(value)
        elif name:
            raise _invalid(f"the parameter {unquote(name)} has no value; write {unquote(name)}=…")
    return _with_old_names(parts)


def _split_host(text: str) -> tuple[str, str]:
    """Split `host:port`, `[::1]:port` or a folder, which has percent signs instead of slashes."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise _invalid(f"{text} is not a host; an IPv6 address is written [::1]:5432")
        return host, rest[1:]
    host, _, port = text.partition(":")
    return unquote(host), port


def _with_old_names(parts: dict[str, str]) -> dict[str, str]:
    """Replace the names that other programs use: `ssl=true`, and `host=a:5432,b:5432` in the query."""
    match parts.pop("ssl", None):
        case "true" | "1":
            parts["sslmode"] = "require"
        case "false" | "0":
            parts["sslmode"] = "disable"
        case str(mode):
            parts["sslmode"] = mode
    hosts = parts.get("host", "").split(",")
    if "port" not in parts and any(host.count(":") == 1 for host in hosts):
        pairs = [host.partition(":") if host.count(":") == 1 else (host, "", "") for host in hosts]
        parts["host"], parts["port"] = ",".join(pair[0] for pair in pairs), ",".join(pair[2] for pair in pairs)
    return parts


def _read_words(text: str) -> dict[str, str]:
    parts, position = {}, 0
    while text[position:].strip():
        match = _WORD.match(text, position)
        if match is None:
            raise _invalid(_NOT_AN_ADDRESS)
        name, value = match.groups()
        parts[name] = re.sub(r"\\(.)", r"\1", value[1:-1] if value.startswith("'") else value, flags=re.DOTALL)
        position = match.end()
    return _with_old_names(parts)


def _read_service(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a section of the service file."""
    files = [environment.get("PGSERVICEFILE") or str(Path(environment.get("HOME") or "~", ".pg_service.conf"))]
    if folder := environment.get("PGSYSCONFDIR"):
        files.append(str(Path(folder, "pg_service.conf")))
    for file in files:
        sections = RawConfigParser(delimiters=("=",), comment_prefixes=("#",), strict=False)
        try:
            sections.read(file)
        except (BadFile, OSError, UnicodeDecodeError) as error:
            raise _invalid(f"the service file {file} cannot be read ({error})") from error
        if name in sections:
            return dict(sections[name])
    raise _invalid(f"the service {name} is not in {' or '.join(files)}")


def _check(parts: Mapping[str, str], origin: str = "") -> None:
    for name, value in parts.items():
        if (rule := _PARAMETERS.get(name)) is None:
            close = difflib.get_close_matches(name, _PARAMETERS, 1)
            advice = f"did you mean {close[0]}?" if close else "remove it"
            raise _invalid(f"the parameter {name} is unknown; {advice}")
        if value and (problem := rule(value)):
            raise _invalid(f"{name}{origin} {problem}" if problem.startswith("must") else f"{name}{origin}: {problem}")


def _check_root(parts: Mapping[str, str]) -> None:
    mode, root = parts.get("sslmode", ""), Path("~/.postgresql/root.crt").expanduser()
    if mode.startswith("verify") and not parts.get("sslrootcert") and not root.is_file():
        raise _invalid(
            f"sslmode={mode} needs the certificate of the authority; add sslrootcert=FILE, or sslrootcert=system for a "
            "public one"
        )
    if parts.get("sslrootcert") == "system" and mode not in {"", "verify-full"}:
        raise _invalid(f"sslrootcert=system needs sslmode=verify-full, not {mode}")


def _url_of(parts: dict[str, str]) -> URL:
    address = parts.pop("hostaddr", "")
    if address and parts.get("host"):
        raise _invalid("host and hostaddr together are not supported; remove hostaddr")
    hosts = (parts.pop("host", "") or address).split(",")
    ports = parts.pop("port", "").split(",")
    if len(ports) not in {1, len(hosts)}:
        raise _invalid(f"{len(hosts)} hosts have {len(ports)} ports; give one port, or one for each host")
    if bad := next((port for port in ports if port and not _is_port(port)), None):
        raise _invalid(f"the port {bad} must be a number from 1 to 65535")
    user, password = parts.pop("user", None) or None, parts.pop("password", None)
    query = {name: value for name, value in parts.items() if value and name != "dbname"}
    host, port = None, None
    if len(hosts) == 1 and hosts[0] and not Server(hosts[0], 0).is_socket:
        host, port = hosts[0], int(ports[0]) if ports[0] else None
    elif any(hosts):
        query["host"] = ",".join(each or "localhost" for each in hosts)
        if any(ports):
            query["port"] = ",".join(each or str(DEFAULT_PORT) for each in ports)
    elif any(ports):
        query["port"] = ports[0]
    database = parts.get("dbname") or user or getpass.getuser()
    return URL.create("postgresql+asyncpg", user, password, host, port, database, query)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def _invalid(problem: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(f"MAILWRIGHT_DATABASE_URL: {problem}")
