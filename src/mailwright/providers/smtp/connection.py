"""One SMTP session. At any time it is known which messages the server may have.

The content of a message and the envelope of the next share a write, so that a message costs one round trip (RFC 2920).
"""

import re
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mailwright.domain.clock import Clock
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import SendResult
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.login import ServerFeatures
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import (
    EIGHT_BIT_UNSUPPORTED,
    ENDED_AFTER,
    ENDED_BEFORE,
    LOCK_EXPIRED,
    TOO_LARGE,
    UTF8_UNSUPPORTED,
    SessionEnd,
    interpret_rejection,
)
from mailwright.providers.smtp.settings import Timeouts
from mailwright.providers.smtp.transport import SmtpTransport
from mailwright.providers.smtp.wire import wire_format

# A larger body is sent in pieces of this size, each after the previous one: until the last piece is written,
# the message can be withdrawn.
CHUNK_BYTES = 64 * 1024

# Several kept connections may be stale; this limits how often a message changes the connection.
MAX_MOVES = 3

WHOLE_ENVELOPE = (SmtpPhase.MAIL, SmtpPhase.RCPT, SmtpPhase.DATA)

OK = 250


class GoodReplies(NamedTuple):
    """Replies that are expected, and the pattern that matches if all of them are good."""

    phases: deque[SmtpPhase]
    pattern: re.Pattern[bytes]


_TEXT = rb"[^\n]{0,4000}\n"
_GOOD_ENVELOPE = rb"2\d\d " + _TEXT + rb"2\d\d " + _TEXT + rb"354 " + _TEXT
# By their number. The first group is the reply about the message whose content came before.
_GOOD_REPLIES = {
    3: GoodReplies(deque(WHOLE_ENVELOPE), re.compile(_GOOD_ENVELOPE)),
    4: GoodReplies(deque((SmtpPhase.DOT, *WHOLE_ENVELOPE)), re.compile(rb"2\d\d ([^\n]{0,4000})\n" + _GOOD_ENVELOPE)),
}


class ConnectionOwner(Protocol):
    def take(self) -> SmtpJob | None:
        """Return the next message that waits for a connection."""

    def requeue(self, job: SmtpJob) -> None:
        """The server has not replied to this message: another connection will send it."""

    def park(self, connection: "SmtpConnection") -> None:
        """The connection could begin another message, but there is none."""

    def unpark(self, connection: "SmtpConnection") -> None:
        """The connection can begin no more messages."""

    def lost(self, connection: "SmtpConnection") -> None: ...


class SmtpConnection:
    __slots__ = (
        "_begun",
        "_body_left",
        "_clock",
        "_expected",
        "_features",
        "_filing",
        "_handlers",
        "_later_commands",
        "_max_messages",
        "_opening",
        "_owner",
        "_timeout_of",
        "_timeouts",
        "_writing",
        "is_quitting",
        "transport",
    )

    def __init__(
        self,
        transport: SmtpTransport,
        features: ServerFeatures,
        owner: ConnectionOwner,
        *,
        clock: Clock,
        timeouts: Timeouts,
        max_messages: int,
    ) -> None:
        self.transport = transport
        self._features = features
        self._owner = owner
        self._clock = clock
        self._timeouts = timeouts
        self._max_messages = max_messages
        self._begun = 0
        self.is_quitting = False

        # A message passes through these three states; each holds at most one.
        self._opening: SmtpJob | None = None  # Its envelope was sent.
        self._writing: SmtpJob | None = None  # A part of its content was sent, but not the end.
        self._filing: SmtpJob | None = None  # Its last byte was sent: the server may have it.

        self._later_commands: list[tuple[bytes, tuple[SmtpPhase, ...]]] = []  # For the message in `_opening`.
        self._body_left = memoryview(b"")
        self._expected: deque[SmtpPhase] = deque()  # The expected replies, in order.
        self._handlers: dict[SmtpPhase, Callable[[SmtpReply], None]] = {
            SmtpPhase.MAIL: self._on_mail_reply,
            SmtpPhase.RCPT: self._on_rcpt_reply,
            SmtpPhase.DATA: self._on_data_reply,
            SmtpPhase.DOT: self._on_dot_reply,
            SmtpPhase.RESET: self._on_reset_reply,
            SmtpPhase.LONE_DOT: self._on_lone_dot_reply,
            SmtpPhase.QUIT: self._on_quit_reply,
        }
        self._timeout_of = {
            SmtpPhase.MAIL: timeouts.mail,
            SmtpPhase.RCPT: timeouts.rcpt,
            SmtpPhase.DATA: timeouts.data,
            SmtpPhase.DOT: timeouts.dot,
            SmtpPhase.RESET: timeouts.reset,
            SmtpPhase.LONE_DOT: timeouts.dot,
            SmtpPhase.QUIT: timeouts.quit,
        }

    @property
    def is_idle(self) -> bool:
        return not self._expected and self._writing is None

    def start(self) -> None:
        self.transport.listener = self
        self._begin_next()
        self.transport.allow(self.patience())

    def begin(self, job: SmtpJob) -> None:
        """Begin a message on a parked connection."""
        commands = self._open(job) or self._open_next()
        if commands:
            self.transport.write(commands)
        else:
            self._owner.park(self)
        self.transport.allow(self.patience())

    def quit(self) -> None:
        """Close an idle connection."""
        self._owner.unpark(self)
        self.is_quitting = True
        self._expected.append(SmtpPhase.QUIT)
        self.transport.write(b"QUIT\r\n")
        self.transport.allow(self.patience())

    # Called by the transport.

    def good_replies_received(self, data: bytes) -> bool:
        """Handle the common case: exactly the expected replies, all of them good.

        Return False for anything else. That is parsed reply by reply, with the same outcome, in three times the time.
        """
        good = _GOOD_REPLIES.get(len(self._expected))
        if good is None or self._expected != good.phases or self._opening is None:
            return False
        match = good.pattern.fullmatch(data)
        if match is None:
            return False
        self._expected.clear()
        if self._filing is not None:
            filed, self._filing = self._filing, None
            filed.settle(filed.sent(SmtpReply(OK, [match[1]])))
        self._opening.has_reply = True
        self._opening.recipients_answered = 1
        self._send_content(self._opening)
        return True

    def reply_received(self, reply: SmtpReply) -> None:
        if not self._expected:
            self._on_unsolicited_reply(reply)
        elif reply.code == 421:
            self._shut_down(self._expected.popleft(), reply)
        else:
            self._handlers[self._expected.popleft()](reply)

    def patience(self) -> float:
        if self._expected:
            return self._timeout_of[self._expected[0]]
        return self._timeouts.idle if self._writing is None else self._timeouts.block

    def timed_out(self) -> None:
        if self.is_idle:
            self.quit()
        else:
            phase = f"reply to {self._expected[0].name}" if self._expected else "progress in the content"
            self.transport.end(SessionEnd.TIMED_OUT, f"no {phase} in {self.patience():g} s")

    def writable_again(self) -> None:
        if self._writing is not None:
            self._write_more(self._writing)
            self.transport.allow(self.patience())
        elif self._opening is None and self._features.pipelining and not self.is_quitting:
            self._begin_next()

    def connection_ended(self, ending: SessionEnd, detail: str) -> None:
        if self._filing is not None:
            self._filing.settle(ENDED_AFTER[ending].result(f"after the last byte: {detail}"))
        for job in (self._writing, self._opening):
            if job is None:
                continue
            if self._may_move(job) and ending is not SessionEnd.SHUT_DOWN:
                job.moves += 1
                self._owner.requeue(job)
            else:
                job.settle(ENDED_BEFORE[ending].result(detail))
        self._filing = self._writing = self._opening = None
        self._owner.lost(self)

    # Beginning a message.

    def _begin_next(self) -> None:
        """Begin messages while no envelope is open."""
        commands = self._open_next()
        if commands:
            self.transport.write(commands)
        else:
            self._park_or_quit()

    def _park_or_quit(self) -> None:
        if self._begun < self._max_messages:
            self._owner.park(self)
        elif self.is_idle:
            self.quit()

    def _open_next(self) -> bytes:
        """Return the first commands of the next message; empty if there is none."""
        commands = b""
        while not commands and self._begun < self._max_messages and (job := self._owner.take()):
            commands = self._open(job)
        return commands

    def _open(self, job: SmtpJob) -> bytes:
        problem = self._find_problem(job)
        if problem is not None:
            job.settle(problem)
            return b""
        self._begun += 1
        self._opening = job
        commands, phases = self._envelope(job)
        self._expected.extend(phases)
        return commands

    def _find_problem(self, job: SmtpJob) -> SendResult | None:
        """Return why this server cannot accept the message, known without asking it."""
        message, features = job.message, self._features
        if self._is_too_late(message):
            return LOCK_EXPIRED.result("the lease on the message ended before it could be sent")
        if features.max_size_bytes is not None and len(message.content) > features.max_size_bytes:
            size = f"{len(message.content)} bytes, the server accepts {features.max_size_bytes}"
            return TOO_LARGE.result(f"the message is too large: {size}")
        if not job.is_seven_bit and "8BITMIME" not in features.offered:
            return EIGHT_BIT_UNSUPPORTED.result("the content has 8-bit bytes and the server accepts 7-bit only")
        if job.needs_utf8 and "SMTPUTF8" not in features.offered:
            return UTF8_UNSUPPORTED.result("an address has non-ASCII characters and the server does not support them")
        return None

    def _envelope(self, job: SmtpJob) -> tuple[bytes, tuple[SmtpPhase, ...]]:
        """Return what can be written at once with the expected replies, and keep the rest for later."""
        message = job.message
        mail_from = f"MAIL FROM:<{message.sender}>{self._parameters(job)}\r\n"
        if self._features.pipelining and len(message.recipients) == 1:
            # With one recipient, no reply can require withdrawing a DATA that the server accepted for another one.
            return f"{mail_from}RCPT TO:<{message.recipients[0]}>\r\nDATA\r\n".encode(), WHOLE_ENVELOPE
        recipients = [f"RCPT TO:<{address}>\r\n" for address in message.recipients]
        data = (b"DATA\r\n", (SmtpPhase.DATA,))
        if self._features.pipelining:
            self._later_commands = [data]
            return "".join((mail_from, *recipients)).encode(), (SmtpPhase.MAIL, *[SmtpPhase.RCPT] * len(recipients))
        # Taken from the end.
        self._later_commands = [data, *((one.encode(), (SmtpPhase.RCPT,)) for one in reversed(recipients))]
        return mail_from.encode(), (SmtpPhase.MAIL,)

    def _parameters(self, job: SmtpJob) -> str:
        size = f" SIZE={len(job.message.content)}" if self._features.supports_size else ""
        body = "" if job.is_seven_bit else " BODY=8BITMIME"
        return f"{size}{body} SMTPUTF8" if job.needs_utf8 else size + body

    # Replies to the envelope.

    def _on_mail_reply(self, reply: SmtpReply) -> None:
        job = self._opening
        assert job is not None
        job.has_reply = True
        if not reply.is_ok:
            if not reply.is_refusal:
                self._out_of_step(job, SmtpPhase.MAIL, reply)
                return
            job.refusal = interpret_rejection(SmtpPhase.MAIL, reply)
        if not self._expected:
            self._go_on(job)

    def _on_rcpt_reply(self, reply: SmtpReply) -> None:
        job = self._opening
        assert job is not None
        if not reply.is_ok:
            if not reply.is_refusal:
                self._out_of_step(job, SmtpPhase.RCPT, reply)
                return
            job.refused_recipients[job.recipients_answered] = interpret_rejection(SmtpPhase.RCPT, reply)
        job.recipients_answered += 1
        if not self._expected:
            self._go_on(job)

    def _on_data_reply(self, reply: SmtpReply) -> None:
        job = self._opening
        assert job is not None
        verdict = job.verdict()
        if reply.code == 354:
            if verdict is None:
                self._send_content(job)
            elif job.has_recipients:
                # A dot would deliver an empty message to some recipients.
                self._abandon(job, verdict, "the server expects content for a rejected message")
            else:
                self._give_up(job, verdict, b".\r\n", SmtpPhase.LONE_DOT)
        elif reply.is_refusal:
            self._give_up(job, verdict or interpret_rejection(SmtpPhase.DATA, reply), b"RSET\r\n", SmtpPhase.RESET)
        else:
            self._out_of_step(job, SmtpPhase.DATA, reply)

    def _go_on(self, job: SmtpJob) -> None:
        """Everything sent so far is answered, and DATA was not sent yet."""
        is_complete = job.refusal is not None or job.recipients_answered == len(job.message.recipients)
        verdict = job.verdict() if is_complete else None
        if verdict is not None:
            self._give_up(job, verdict, b"RSET\r\n", SmtpPhase.RESET)
        else:
            commands, phases = self._later_commands.pop()
            self._expected.extend(phases)
            self.transport.write(commands)

    def _give_up(self, job: SmtpJob, verdict: SendResult, command: bytes, phase: SmtpPhase) -> None:
        """Reset the transaction; the connection continues with the next message."""
        job.settle(verdict)
        self._opening = None
        self._expected.append(phase)
        self.transport.write(command + (self._open_next() if self._features.pipelining else b""))

    def _on_reset_reply(self, reply: SmtpReply) -> None:
        if not reply.is_ok:
            self.transport.end(SessionEnd.LOST, f"the server rejected RSET: {reply.status} {reply.text}")
        elif self._opening is None:
            self._begin_next()

    def _on_lone_dot_reply(self, _reply: SmtpReply) -> None:
        if self._opening is None:
            self._begin_next()

    # Sending the content.

    def _send_content(self, job: SmtpJob) -> None:
        if job.is_over:
            self._abandon(job, LOCK_EXPIRED.result("the send was cancelled"), "taken back")
        elif self._is_too_late(job.message):
            result = LOCK_EXPIRED.result("the lease on the message ended before its content could be sent")
            self._abandon(job, result, "taken back")
        else:
            self._opening = None
            content, end = wire_format(job.message)
            if len(content) <= CHUNK_BYTES:
                self._write_last(job, content, end)
            else:
                self._writing = job
                self._body_left = memoryview(content + end)
                self._write_more(job)

    def _write_more(self, job: SmtpJob) -> None:
        # A broken connection discards what is written: its last chunk is never sent.
        while not self.transport.is_full and not self.transport.is_closing:
            chunk, self._body_left = self._body_left[:CHUNK_BYTES], self._body_left[CHUNK_BYTES:]
            if not self._body_left:
                self._writing = None
                self._write_last(job, chunk)
                return
            self.transport.write(chunk)

    def _write_last(self, job: SmtpJob, *rest: bytes | memoryview) -> None:
        self._filing = job
        self._expected.append(SmtpPhase.DOT)
        following = self._open_next() if self._features.pipelining else b""
        self.transport.write(b"".join((*rest, following)))
        if not self._features.pipelining:
            return
        if not following and not self.transport.is_full:
            self._park_or_quit()

    def _on_dot_reply(self, reply: SmtpReply) -> None:
        job = self._filing
        assert job is not None
        if reply.is_ok:
            job.settle(job.sent(reply))
        elif reply.is_refusal:
            job.settle(interpret_rejection(SmtpPhase.DOT, reply))
        else:
            self.transport.end(SessionEnd.GARBLED, f"not a reply to a message: {reply.status} {reply.text}")
            return
        self._filing = None
        if self._opening is None:
            self._begin_next()

    def _on_quit_reply(self, _reply: SmtpReply) -> None:
        self.transport.close()

    # Failures.

    def _on_unsolicited_reply(self, reply: SmtpReply) -> None:
        """Usually an idle timeout; during the content, a server that rejects early."""
        if self._writing is not None and reply.is_refusal:
            self._writing.settle(interpret_rejection(SmtpPhase.DOT, reply))
            self._writing = None
        self.transport.end(SessionEnd.GARBLED, f"unsolicited reply: {reply.status} {reply.text}")

    def _shut_down(self, phase: SmtpPhase, reply: SmtpReply) -> None:
        job = self._filing if phase is SmtpPhase.DOT else self._opening if phase in WHOLE_ENVELOPE else None
        if job is not None and not self._may_move(job):
            self._forget(job)
            job.settle(interpret_rejection(phase, reply))
        self.transport.end(SessionEnd.LOST, f"the server is closing: {reply.status} {reply.text}")

    def _out_of_step(self, job: SmtpJob, phase: SmtpPhase, reply: SmtpReply) -> None:
        """Replies no longer match commands: any further reply could be misread."""
        self._abandon(job, interpret_rejection(phase, reply), f"{reply.status} is not a valid reply to {phase.name}")

    def _abandon(self, job: SmtpJob, result: SendResult, detail: str) -> None:
        """Withdraw a message before its last byte. Only closing the connection can undo an accepted DATA."""
        self._forget(job)
        job.settle(result)
        self.transport.end(SessionEnd.LOST, detail)

    def _forget(self, job: SmtpJob) -> None:
        if job is self._opening:
            self._opening = None
        else:
            self._filing = None

    def _may_move(self, job: SmtpJob) -> bool:
        """The connection failed for another reason: it was kept too long, or because of the previous message."""
        return not job.has_reply and job.moves < MAX_MOVES and self._begun > 1

    def _is_too_late(self, message: OutgoingMessage) -> bool:
        return message.send_before is not None and self._clock.now() >= message.send_before
