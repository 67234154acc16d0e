"""The fast path for good replies gives the same results as parsing reply by reply."""

import asyncio
import re
from collections.abc import Iterable
from functools import partial
from typing import cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mailwright.domain.clock import ManualClock
from mailwright.domain.results import SendResult
from mailwright.providers.smtp.connection import SmtpConnection
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.login import LoginConversation, ServerFeatures
from mailwright.providers.smtp.settings import Timeouts
from tests.unit.providers.smtp_builders import a_mail

GOOD = [b"250 2.0.0 Ok: queued as 4711\r\n", b"250 2.1.0 Ok\r\n", b"250 2.1.5 Ok\r\n", b"354 go on\r\n"]
ENVELOPE, ROUND = b"".join(GOOD[1:]), b"".join(GOOD)
ANYTHING = st.sampled_from(
    [
        *GOOD,
        ENVELOPE,
        ROUND,
        b"250-2.0.0 Ok\r\n",
        b"250 \n",
        b"299 fine\r\n",
        b"354 \xff\r\n",
        b"250 " + b"x" * 4_050 + b"\r\n",
        b"550 5.1.1 unknown\r\n",
        b"451 later\r\n",
        b"421 bye\r\n",
        b"220 what\r\n",
        b"35",
        b"\r\n",
    ]
)


class Wire:
    """A transport that records what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.has_ended = False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        self.has_ended = True

    close = abort

    def is_closing(self) -> bool:
        return self.has_ended


class Office:
    """Sends three messages over one connection."""

    def __init__(self) -> None:
        self.results: dict[int, SendResult] = {}
        self.moved: list[SmtpJob] = []
        self._waiting = [
            SmtpJob(a_mail(f"reader{n}@example.com"), partial(self.results.__setitem__, n)) for n in range(3)
        ]

    def take(self, connection: SmtpConnection, *, is_busy: bool) -> SmtpJob | None:
        return self._waiting.pop(0) if self._waiting else None

    def requeue(self, job: SmtpJob) -> None:
        self.moved.append(job)

    def park(self, connection: SmtpConnection) -> None: ...

    def unpark(self, connection: SmtpConnection) -> None: ...

    def lost(self, connection: SmtpConnection) -> None: ...


async def heard(pieces: Iterable[bytes]) -> tuple[dict[int, SendResult], list[str], bytes, bool]:
    """Return the results, moved messages, written bytes and end of the session for these replies."""
    wire, office, line = Wire(), Office(), LoginConversation(Timeouts()).transport
    line.connection_made(cast("asyncio.BaseTransport", wire))
    features = ServerFeatures({"PIPELINING": ""}, pipelining=True, max_size_bytes=None, supports_size=False)
    SmtpConnection(line, features, office, clock=ManualClock(), timeouts=Timeouts(), max_messages=100).start()
    for piece in pieces:
        line.data_received(piece)
    moved = [job.message.recipients[0] for job in office.moved]
    return office.results, moved, wire.written, wire.has_ended


@settings(deadline=None)
@given(st.lists(ANYTHING, max_size=6).map(b"".join))
@example(ENVELOPE + ROUND)
def test_replies_mean_the_same_in_any_chunking(data: bytes) -> None:
    # A server waits for the content after 354; replies in the same piece would be early, and are not trusted.
    pieces = re.findall(rb".*?(?:354[^\n]*\n|$)", data, re.DOTALL)
    assert asyncio.run(heard(pieces)) == asyncio.run(heard(bytes([byte]) for byte in data))


async def test_good_replies_take_the_fast_path() -> None:
    """Make sure that the fast path is used; otherwise the test above compares nothing."""
    results, _, written, _ = await heard([ENVELOPE, ROUND, ROUND])
    assert [results[number].provider_message_id for number in range(2)] == ["4711", "4711"]
    assert written.count(b"\r\n.\r\n") == 3
