"""Logs: one JSON object a line, with the ids that lead to the message. No secret, no body, no whole address."""

import contextlib
import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, Literal

import structlog

_SECRET = re.compile(r"password|secret|token|authorization|api_?key|dsn|cookie", re.IGNORECASE)
_ADDRESS = re.compile(
    r"([A-Za-z0-9!#$%&'*+/=?^_`{|}~.-])[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]*@([A-Za-z0-9-])[A-Za-z0-9.-]*?(\.[A-Za-z]+)\b"
)
_URL_PASSWORD = re.compile(r"(://[^:/@\s]*):[^@/\s]+@")


def configure(level: str = "INFO", style: Literal["json", "console"] = "json") -> None:
    """Call once, at the start of a process."""
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


def logger(name: str) -> Any:
    return structlog.get_logger(component=name)


def scrub(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The last step before a line is written: what must never be in a log is taken out here, whoever put it in."""
    for key, value in line.items():
        if _SECRET.search(key):
            line[key] = "***"
        elif isinstance(value, str):
            line[key] = _URL_PASSWORD.sub(r"\1:***@", _ADDRESS.sub(r"\1***@\2***\3", value))
    return line
