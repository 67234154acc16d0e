"""Logs as JSON lines with the IDs of messages, without secrets, bodies or complete addresses."""

import contextlib
import logging
import re
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from functools import partial
from typing import Any, Literal

import orjson

from mailwright.domain.address import mask
from mailwright.domain.clock import SystemClock, isoformat
from mailwright.ops.child_process import this_child

_SECRET = re.compile(r"password|secret|token|authorization|api_?key|dsn|cookie", re.IGNORECASE)
# Match up to the last @ of the word, because a password may contain characters that should have been encoded.
_URL_USER = re.compile(r"://\S*@")
_NOT_IN_ADDRESS = frozenset(" \t\r\n\"'()<>[]{},;:")
_DOMAIN = re.compile(r"[^\s\"'()<>\[\]{},;:/@]{1,253}")
_LONGEST_LOCAL_PART = 64


# The configuration to apply when the first line is written.
_pending: list[partial[None]] = []
# Fields of lines that are written directly: the caller has masked the recipient, and an ID of a provider is no address.
_SAFE = frozenset({"to", "providerMessageId"})
# The lowest level of lines that are written directly as JSON, without structlog. Empty until JSON is configured.
_direct_level: list[int] = []


def configure(level: str = "INFO", style: Literal["json", "console"] = "json") -> None:
    """Configure the logs. Call once, at the start of a process."""
    _pending[:] = [partial(_configure, level, style)]
    _direct_level[:] = [logging.getLevelNamesMapping()[level]] if style == "json" else []


def write_info(component: str, event: str, at: str | None, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write a line at level info for each mapping, all of them at once. `at` is the time of the lines.

    A line of structlog takes a hundred times as long to make. The values must contain no secrets.
    """
    if not _direct_level:
        log = logger(component)
        for line in lines:
            log.info(event, **line)
    elif _direct_level[0] <= logging.INFO:
        shared: dict[str, Any] = {"component": component, "event": event, "level": "info", "timestamp": at}
        if (child := this_child()) is not None:
            shared["process"] = child.number
        written = [
            orjson.dumps({**{name: _direct(name, value) for name, value in line.items()}, **shared}) for line in lines
        ]
        _Lines().msg(b"\n".join(written).decode())


def _direct(name: str, value: Any) -> Any:
    return _masked(value) if isinstance(value, str) and "@" in value and name not in _SAFE else value


def _configure(level: str, style: Literal["json", "console"]) -> None:
    import structlog  # noqa: PLC0415 - slow to import, as below

    renderer: Any = structlog.processors.JSONRenderer() if style == "json" else _for_people()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            _add_timestamp,
            *([] if (child := this_child()) is None else [partial(_add_process, child.number)]),
            structlog.processors.format_exc_info,
            scrub,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=lambda *_: _Lines(),
        cache_logger_on_first_use=False,
    )


def _add_timestamp(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the time in the form of the lines that are written directly: with milliseconds."""
    event["timestamp"] = isoformat(SystemClock().now())
    return event


def _for_people() -> Any:
    import structlog  # noqa: PLC0415 - slow to import

    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


def _add_process(number: int, _logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    line["process"] = number
    return line


class _Lines:
    """Writes lines to stderr. If a line cannot be written, for example on a full disk, the process continues."""

    def msg(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(line, file=sys.stderr, flush=True)

    log = debug = info = warn = warning = err = error = exception = critical = fatal = msg


class _Logger:
    """A structlog logger that imports structlog when it writes its first line.

    Most commands log nothing, and the import would take a tenth of their time.
    """

    __slots__ = ("_component",)

    def __init__(self, component: str) -> None:
        self._component = component

    def __getattr__(self, method: str) -> Any:
        if _pending and _is_below(method, _pending[-1].args[0]):
            return _write_nothing
        import structlog  # noqa: PLC0415 - slow to import

        while _pending:
            _pending.pop()()
        return getattr(structlog.get_logger(component=self._component), method)


def _is_below(method: str, level: str) -> bool:
    numbers = logging.getLevelNamesMapping()
    return numbers.get(method.upper(), logging.CRITICAL) < numbers[level]


def _write_nothing(*_: Any, **__: Any) -> None:
    """Ignore a line below the log level."""


def logger(name: str) -> Any:
    return _Logger(name)


def scrub(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Remove secrets and mask addresses. This is the last step before a line is written."""
    for key, value in line.items():
        line[key] = _scrubbed(key, value)
    return line


def _scrubbed(key: str, value: Any) -> Any:
    if _SECRET.search(key):
        return "***"
    if isinstance(value, str):
        return _masked(value) if "@" in value else value
    if isinstance(value, Mapping):
        return {name: _scrubbed(str(name), item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_scrubbed(key, item) for item in value]
    return value


def _masked(text: str) -> str:
    """Mask every address in a text. Examine only the characters around each @, so that one pass is enough."""
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
