"""Command-line options of the stand-ins."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.standins.http import Answer, HttpStandIn


@dataclass(frozen=True, slots=True)
class StandInOptions:
    fail: int | None = None  # Respond to messages with this status.
    times: int | None = None  # None means all.
    events_to: str | None = None  # Where events of accepted messages are posted.
    outbox_id: str | None = None  # The message, recipient and event to report.
    email: str = "reader@example.com"
    type: str | None = None
    seed: str | None = None  # A file with the initial content.
    delay_seconds: float = 0.0  # Respond to each message after this long.
    outage: str | None = None  # `refuse` connections, or `hang`: accept them and never reply.
    outage_seconds: float | None = None  # When `fail` or `outage` ends. None means never.


def misbehave(
    stand_in: HttpStandIn, asked: StandInOptions, path: str, refused: Callable[[int], Answer] = Answer
) -> None:
    """`refused` turns a status into the provider's own error."""
    if asked.fail is not None:
        stand_in.answer(refused(asked.fail), times=asked.times, path=path)


async def post(url: str, body: bytes, headers: Mapping[str, str]) -> str:
    """Describe the response in one line."""
    return await asyncio.to_thread(_post, urllib.request.Request(url, body, dict(headers)))


def _post(request: urllib.request.Request) -> str:
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return f"nobody answers: {error}"
