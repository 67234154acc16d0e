"""Append each message to a file. The provider never raises: every failure is a result."""

import asyncio
import json
import os
from pathlib import Path

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult, sent
from mailwright.providers.protocol import ProviderCheck
from mailwright.providers.reading_settings import missing_setting
from mailwright.providers.responses import ResultTemplates
from mailwright_example.jsonlines.kind import JsonLinesFields

NAME = "jsonlines"
_make = ResultTemplates(NAME)
_LATE = _make.not_called("LOCK_EXPIRED", blame=False)
_NOT_WRITABLE = _make.retried("JSONLINES_NOT_WRITABLE", blame=True)


class JsonLines:
    name = NAME
    capacity = bulk_capacity = 4

    def __init__(self, file: Path, clock: Clock, *, reports_events: bool) -> None:
        self.reports_events = reports_events
        self._file = file
        self._clock = clock

    async def send(self, message: OutgoingMessage) -> SendResult:
        if message.send_before is not None and self._clock.now() >= message.send_before:
            return _LATE.result("The lease on this message ended before it was sent.")
        try:
            await asyncio.to_thread(self._append, message)
        except OSError as error:
            return _NOT_WRITABLE.result(f"{self._file}: {error.strerror}")
        return sent(NAME, message.outbox_id)

    async def check(self) -> ProviderCheck:
        is_ok = os.access(self._file.parent, os.W_OK | os.X_OK)
        return ProviderCheck(is_ok, str(self._file), None if is_ok else "JSONLINES_NOT_WRITABLE")

    async def close(self, grace: Instant = 0) -> None:
        """Do nothing, because every message is on disk when its send returns."""

    def _append(self, message: OutgoingMessage) -> None:
        line = {"id": message.outbox_id, "to": message.recipients, "content": message.content.decode("latin-1")}
        # One write of one line: other processes append whole lines too.
        with self._file.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")
            os.fsync(file.fileno())


def read_settings(settings: JsonLinesFields) -> Path:
    if settings.jsonlines_file is None:
        raise missing_setting("JSONLINES_FILE", NAME, settings)
    return settings.jsonlines_file


def make_provider(settings: JsonLinesFields, clock: Clock, _http: object, *, reports_events: bool) -> JsonLines:
    return JsonLines(read_settings(settings), clock, reports_events=reports_events)
