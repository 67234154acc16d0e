"""What the command line asks of a stand-in, besides being there."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.standins.http import Answer, HttpStandIn


@dataclass(frozen=True, slots=True)
class Asked:
    fail: int | None = None  # answer so many mails with this status
    times: int | None = None  # None: all of them
    events_to: str | None = None  # where events of the mails that were taken are posted
    outbox_id: str | None = None  # the mail, its reader and the event that are told of
    email: str = "reader@example.com"
    type: str | None = None
    seed: str | None = None  # a file of what is there from the start


def misbehave(stand_in: HttpStandIn, asked: Asked, path: str, refused: Callable[[int], Answer] = Answer) -> None:
    """`refused` makes of a status what the one that is stood in for would say with it."""
    if asked.fail is not None:
        stand_in.answer(refused(asked.fail), times=asked.times, path=path)


async def post(url: str, body: bytes, headers: Mapping[str, str]) -> str:
    """What came back, in one line."""
    return await asyncio.to_thread(_post, urllib.request.Request(url, body, dict(headers)))


def _post(request: urllib.request.Request) -> str:
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return f"{answer.status} {answer.read().decode()}"
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.read().decode()}"
    except OSError as error:
        return f"nobody answers: {error}"
