"""Logs: one JSON object a line, with the ids that lead to the message. No secret, no body, no whole address."""

import contextlib
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from functools import partial
from typing import Any, Literal

from mailwright.domain.address import mask

_SECRET = re.compile(r"password|secret|token|authorization|api_?key|dsn|cookie", re.IGNORECASE)
# Up to the last @ of the word: a password may hold any of the characters that should end it.
_URL_USER = re.compile(r"://\S*@")
_NOT_IN_ADDRESS = frozenset(" \t\r\n\"'()<>[]{},;:")
_DOMAIN = re.compile(r"[^\s\"'()<>\[\]{},;:/@]{1,253}")
_LONGEST_LOCAL_PART = 64


# What `configure` was told, until there is a line to write.
_told: list[partial[None]] = []


def configure(level: str = "INFO", style: Literal["json", "console"] = "json") -> None:
    """Call once, at the start of a process."""
    _told[:] = [partial(_configure, level, style)]


def _configure(level: str, style: Literal["json", "console"]) -> None:
    import structlog  # noqa: PLC0415 - as below

    renderer: Any = structlog.processors.JSONRenderer() if style == "json" else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            scrub,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=lambda *_: _Lines(),
        cache_logger_on_first_use=False,
    )


class _Lines:
    """Writes lines to stderr. A log that cannot be written, as on a full disk, must not stop any mail."""

    def msg(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)

    log = debug = info = warn = warning = err = error = exception = critical = fatal = msg


class _Logger:
    """A logger of structlog, from the first line on that somebody sees: most commands write none, and its import costs
    them a tenth."""

    __slots__ = ("_component",)

    def __init__(self, component: str) -> None:
        self._component = component

    def __getattr__(self, method: str) -> Any:
        if _told and _is_below(method, _told[-1].args[0]):
            return _write_nothing
        import structlog  # noqa: PLC0415 - slow to import, and only a line needs it

        while _told:
            _told.pop()()
        return getattr(structlog.get_logger(component=self._component), method)


def _is_below(method: str, level: str) -> bool:
    numbers = logging.getLevelNamesMapping()
    return numbers.get(method.upper(), logging.CRITICAL) < numbers[level]


def _write_nothing(*_: Any, **__: Any) -> None:
    """In place of a line that nobody wants to see."""


def logger(name: str) -> Any:
    return _Logger(name)


def scrub(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The last step before a line is written: what must never be in a log is taken out here, whoever put it in."""
    for key, value in line.items():
        line[key] = _scrubbed(key, value)
    return line


def _scrubbed(key: str, value: Any) -> Any:
    if _SECRET.search(key):
        return "***"
    if isinstance(value, str):
        return _masked(value) if "@" in value else value
    if isinstance(value, Mapping):
        return {name: _scrubbed(str(name), each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_scrubbed(key, each) for each in value]
    return value


def _masked(text: str) -> str:
    """Looks around each @ only: a text of any length costs one pass."""
    before, *rest = _URL_USER.sub("://***@", text).split("@")
    shown = [before]
    for after in rest:
        local = _local_part(shown[-1])
        domain = _DOMAIN.match(after)
        if local and domain:
            shown[-1] = shown[-1][: -len(local)] + mask(f"{local}@{domain[0]}")
            shown.append(after[domain.end() :])
        else:
            shown += ["@", after]
    return "".join(shown)


def _local_part(text: str) -> str:
    start = len(text)
    while start > max(0, len(text) - _LONGEST_LOCAL_PART) and text[start - 1] not in _NOT_IN_ADDRESS:
        start -= 1
    return text[start:]
