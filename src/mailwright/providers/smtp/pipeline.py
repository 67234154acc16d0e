"""The messages in flight on one SMTP connection, and the replies that are expected for them."""

import asyncio
from collections import deque
from typing import Protocol

from mailwright.domain.clock import Clock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.providers.smtp.envelope import CommandGroup, envelope_commands, find_unsupported
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.login import ServerFeatures
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import LOCK_EXPIRED

# Several pooled connections may be stale. This limits how often a message moves to another connection.
MAX_MOVES = 3
# A worker hands a second message to a connection whose server replied to the last content within this time.
QUICK_SECONDS = 0.5


class TakeJob(Protocol):
    def __call__(self, *, is_busy: bool) -> SmtpJob | None: ...


class SmtpPipeline:
    """Tracks the messages in flight, and which of them the server may have."""

    __slots__ = (
        "_begun",
        "_clock",
        "_features",
        "_filed_at",
        "_later_commands",
        "_max_messages",
        "_take",
        "_time",
        "accepted",
        "expected",
        "filing",
        "is_quick",
        "opening",
        "writing",
    )

    def __init__(self, features: ServerFeatures, take: TakeJob, *, clock: Clock, max_messages: int) -> None:
        """Create an empty pipeline. `take` returns the next message that waits for a connection."""
        self._time = asyncio.get_running_loop().time
        self._filed_at = 0.0
        self.is_quick = False  # Whether the server soon replied to the last content.
        self._features = features
        self._take = take
        self._clock = clock
        self._max_messages = max_messages
        self._begun = 0
        self._later_commands: list[CommandGroup] = []  # For the message in `opening`; the next group is the last.
        self.expected: deque[SmtpPhase] = deque()  # The expected replies, in order.

        # A message passes through these three states; each holds at most one.
        self.opening: SmtpJob | None = None  # Its envelope was sent.
        self.writing: SmtpJob | None = None  # A part of its content was sent, but not the end.
        self.filing: SmtpJob | None = None  # Its last byte was sent: the server may have it.
        # The id and the first recipient of the last message that the server accepted.
        self.accepted: tuple[str, str] | None = None

    @property
    def can_begin(self) -> bool:
        """Whether the connection may send more messages before it is closed."""
        return self._begun < self._max_messages

    def open_next(self) -> bytes:
        """Return the first commands of the next message; empty if there is none."""
        commands = b""
        while (
            not commands and self._begun < self._max_messages and (job := self._take(is_busy=self.filing is not None))
        ):
            commands = self.open(job)
        return commands

    def open(self, job: SmtpJob) -> bytes:
        """Return the first commands of a message. If it cannot be sent, settle it and return an empty string."""
        problem = self._find_problem(job)
        if problem is not None:
            job.settle(problem)
            return b""
        self._begun += 1
        self.opening = job
        (commands, phases), self._later_commands = envelope_commands(job, self._features)
        self.expected.extend(phases)
        return commands

    def _find_problem(self, job: SmtpJob) -> SendResult | None:
        if self.is_too_late(job.message):
            return LOCK_EXPIRED.result("the lease on the message ended before it could be sent")
        return find_unsupported(job, self._features)

    def next_commands(self) -> bytes:
        """Return the next commands of the message in `opening`, and expect their replies."""
        commands, phases = self._later_commands.pop()
        self.expected.extend(phases)
        return commands

    def forget(self, job: SmtpJob) -> None:
        """Remove a message whose envelope or whole content was sent."""
        if job is self.opening:
            self.opening = None
        else:
            self.filing = None

    def file(self, job: SmtpJob) -> None:
        """Expect the reply to a message, of which the last byte is written next."""
        self.filing = job
        self.expected.append(SmtpPhase.DOT)
        self._filed_at = self._time()

    def accept_filed(self, reply: SmtpReply) -> None:
        """Settle the message in `filing` as accepted."""
        job, self.filing = self.filing, None
        assert job is not None
        self.accepted = job.message.outbox_id, job.message.recipients[0]
        self.is_quick = self._time() - self._filed_at <= QUICK_SECONDS
        job.settle(job.sent(reply))

    def clear(self) -> None:
        self.filing = self.writing = self.opening = None

    def may_move(self, job: SmtpJob) -> bool:
        """Return whether another connection may send the message.

        If the server has not replied to the message, this connection failed for another reason: it was idle too long,
        or the previous message ended it.
        """
        return not job.has_reply and job.moves < MAX_MOVES and self._begun > 1

    def is_too_late(self, message: OutgoingMessage) -> bool:
        return message.send_before is not None and self._clock.now() >= message.send_before
