"""Read the address of a Valkey or Redis server, of a server behind TLS, or of Sentinels that know the server."""

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from mailwright.domain.errors import ConfigurationInvalid

_ADDRESS: Final = re.compile(
    r"(?P<scheme>[a-z+]+)://(?:(?P<username>[^:@/]*)(?::(?P<password>[^@]*))?@)?"
    r"(?P<hosts>[^/?]*)(?P<path>/[^?]*)?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_SCHEMES: Final = {"redis", "rediss", "valkey", "valkeys", "unix"}
_TLS_SCHEMES: Final = {"rediss", "valkeys"}
_FORM: Final = "use redis://host:6379/0, rediss:// for TLS, or redis+sentinel://host:26379/NAME for Sentinel"
_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379

_FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
# The parameters of the query, each with its values; those without values take any text.
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "db": (),
    "username": (),
    "password": (),
    "sentinel_username": (),
    "sentinel_password": (),
    "client_name": (),
    "protocol": ("2", "3"),
    "ssl_ca_certs": (),
    "ssl_certfile": (),
    "ssl_keyfile": (),
    "ssl_cert_reqs": ("none", "optional", "required"),
    "ssl_check_hostname": ("true", "false"),
}


class ValkeyAddress(NamedTuple):
    servers: tuple[tuple[str, int], ...]
    service: str | None  # the name that Sentinels know the server by; None without Sentinel
    is_tls: bool
    login: Mapping[str, Any]  # of the server: database number, user, password, TLS files
    sentinel_login: Mapping[str, Any]
    socket: str | None = None


def parse_address(text: str) -> ValkeyAddress:
    match = _ADDRESS.fullmatch(text)
    scheme, is_plus, kind = match["scheme"].partition("+") if match else ("", "", "")
    if match is None or scheme not in _SCHEMES or (is_plus and kind != "sentinel"):
        raise _invalid(_FORM)
    query = _read_query(match["query"] or "")
    login: dict[str, Any] = {name: unquote(match[name]) for name in ("username", "password") if match[name]}
    sentinel_login = {
        name.removeprefix("sentinel_"): query.pop(name) for name in [*query] if name.startswith("sentinel_")
    }
    login |= query
    if "ssl_check_hostname" in login:
        login["ssl_check_hostname"] = login["ssl_check_hostname"] == "true"
    path = unquote(match["path"] or "").strip("/")
    is_tls = scheme in _TLS_SCHEMES
    if not is_tls and (unused := next((name for name in login if name.startswith("ssl_")), None)):
        raise _invalid(f"{unused} needs TLS; begin the address with rediss://")
    if scheme == "unix":
        return ValkeyAddress((), None, is_tls, _with_database(login, ""), {}, f"/{path}")
    port = _SENTINEL_PORT if is_plus else _PORT
    servers = tuple(_server(each, port) for each in match["hosts"].split(","))
    if is_plus:
        service, _, database = path.partition("/")
        if not service:
            raise _invalid(
                "the name that Sentinel knows the server by is missing; use redis+sentinel://host:26379/NAME"
            )
        return ValkeyAddress(servers, service, is_tls, _with_database(login, database), sentinel_login)
    if len(servers) > 1:
        raise _invalid("several hosts need Sentinel; use redis+sentinel://host:26379,host:26379/NAME")
    return ValkeyAddress(servers, None, is_tls, _with_database(login, path), {})


def _read_query(text: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, text.split("&")):
        name, _, value = map(unquote, pair.partition("="))
        if name not in _PARAMETERS:
            close = difflib.get_close_matches(name, _PARAMETERS, 1)
            raise _invalid(f"the parameter {name} is unknown; {f'did you mean {close[0]}?' if close else 'remove it'}")
        if (values := _PARAMETERS[name]) and value not in values:
            raise _invalid(f"{name} must be {' or '.join(values)}")
        if name in _FILES and not Path(value).is_file():
            raise _invalid(f"{name}: the file {value} does not exist")
        found[name] = value
    return found


def _server(text: str, port: int) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[(?P<six>[^]]+)\]|(?P<host>[^:\[\]]*))(?::(?P<port>\d{1,5}))?", text)
    if match is None:
        raise _invalid(f"{text} is not a host; use host:{port}")
    return unquote(match["six"] or match["host"]) or "localhost", int(match["port"] or port)


def _with_database(login: dict[str, Any], path: str) -> dict[str, Any]:
    number = login.pop("db", "") or path or "0"
    if not number.isascii() or not number.isdigit():
        raise _invalid(f"{number} is not the number of a database, such as 0")
    return {**login, "db": int(number)}


def _invalid(problem: str) -> ConfigurationInvalid:
    return ConfigurationInvalid(f"MAILWRIGHT_REDIS_URL: {problem}")
