"""The provider alone, without an installation."""

import asyncio
import json
from pathlib import Path

from mailwright_example.jsonlines.provider import JsonLines

from mailwright.domain.clock import ManualClock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ResultKind

MESSAGE = OutgoingMessage("0190", "news@example.com", ("jane@example.org",), b"Subject: Hi\r\n\r\nHello\r\n")


def test_message_becomes_one_line(tmp_path: Path) -> None:
    provider = JsonLines(tmp_path / "sent.jsonl", ManualClock(), reports_events=True)
    assert asyncio.run(provider.send(MESSAGE)).kind is ResultKind.SENT
    [line] = (tmp_path / "sent.jsonl").read_text().splitlines()
    assert json.loads(line)["to"] == ["jane@example.org"]


def test_missing_folder_is_retried(tmp_path: Path) -> None:
    provider = JsonLines(tmp_path / "missing" / "sent.jsonl", ManualClock(), reports_events=True)
    result = asyncio.run(provider.send(MESSAGE))
    assert (result.kind, result.code) == (ResultKind.RETRYABLE, "JSONLINES_NOT_WRITABLE")
    assert result.definitely_not_sent
