"""One SMTP session: apply the replies, timeouts and end of its connection to the messages in flight."""

import re
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from mailwright.domain.clock import Clock
from mailwright.providers.protocol import RetractedAcceptance
from mailwright.providers.smtp.envelope import WHOLE_ENVELOPE
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.login import ServerFeatures
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.pipeline import SmtpPipeline
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import ENDED_AFTER, ENDED_BEFORE, SessionEnd, interpret_rejection
from mailwright.providers.smtp.settings import Timeouts
from mailwright.providers.smtp.transactions import SmtpTransactions
from mailwright.providers.smtp.transport import SmtpTransport

OK = 250
# Texts of permanent replies that end an idle session. Such a reply does not reject the session's last message.
ABOUT_THE_SESSION = re.compile(r"time[ds]? ?-?out|idle|clos(?:e|ing)|shut|bye", re.IGNORECASE)


class GoodReplies(NamedTuple):
    """Replies that are expected, and the pattern that matches if all of them are good."""

    phases: deque[SmtpPhase]
    pattern: re.Pattern[bytes]


_TEXT = rb"[^\n]{0,4000}\n"
_GOOD_ENVELOPE = rb"2\d\d " + _TEXT + rb"2\d\d " + _TEXT + rb"354 " + _TEXT
# By the number of replies. The first group of the pattern is the reply to the previous message's content.
_GOOD_DOT = GoodReplies(deque((SmtpPhase.DOT,)), re.compile(rb"2\d\d ([^\n]{0,4000})\n"))
_GOOD_REPLIES = {
    3: GoodReplies(deque(WHOLE_ENVELOPE), re.compile(_GOOD_ENVELOPE)),
    4: GoodReplies(deque((SmtpPhase.DOT, *WHOLE_ENVELOPE)), re.compile(rb"2\d\d ([^\n]{0,4000})\n" + _GOOD_ENVELOPE)),
}


class ConnectionOwner(Protocol):
    def take(self, connection: "SmtpConnection", *, is_busy: bool) -> SmtpJob | None:
        """Return the next waiting message. `is_busy`: the connection still waits for the reply to a message."""

    def requeue(self, job: SmtpJob) -> None:
        """Queue a message again that the server has not replied to, so that another connection sends it."""

    def park(self, connection: "SmtpConnection") -> None:
        """Keep a connection that could begin another message, although none is waiting."""

    def unpark(self, connection: "SmtpConnection") -> None:
        """Remove a connection that can begin no more messages."""

    def retracted(self, retraction: RetractedAcceptance) -> None:
        """Report that the server rejected a message that it had accepted."""

    def lost(self, connection: "SmtpConnection") -> None: ...


class SmtpConnection:
    """Sends messages for its owner. Each gets a result, or goes back to the owner if the connection ends."""

    __slots__ = (
        "_handlers",
        "_is_pipelining",
        "_owner",
        "_pipeline",
        "_timeout_of",
        "_timeouts",
        "_transactions",
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
        self.is_quitting = False
        self._owner = owner
        self._timeouts = timeouts
        self._is_pipelining = features.pipelining
        self._pipeline = SmtpPipeline(features, partial(owner.take, self), clock=clock, max_messages=max_messages)
        self._transactions = transactions = SmtpTransactions(
            transport, self._pipeline, self._park_or_quit, is_pipelining=features.pipelining
        )
        self._handlers: dict[SmtpPhase, Callable[[SmtpReply], None]] = {
            SmtpPhase.MAIL: transactions.on_mail_reply,
            SmtpPhase.RCPT: transactions.on_rcpt_reply,
            SmtpPhase.DATA: transactions.on_data_reply,
            SmtpPhase.DOT: transactions.on_dot_reply,
            SmtpPhase.RESET: transactions.on_reset_reply,
            SmtpPhase.LONE_DOT: transactions.on_lone_dot_reply,
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
        pipeline = self._pipeline
        return not pipeline.expected and pipeline.writing is None

    @property
    def has_second_place(self) -> bool:
        """Whether the next message may begin while the server stores one, so that both share a round trip."""
        return self._is_pipelining and self._pipeline.is_quick and self._pipeline.can_begin and not self.is_quitting

    def start(self) -> None:
        self.transport.listener = self
        self._transactions.begin_next()
        self.transport.allow(self.patience())

    def begin(self, job: SmtpJob) -> None:
        """Begin a message on a parked connection."""
        commands = self._pipeline.open(job) or self._pipeline.open_next()
        if commands:
            self.transport.write(commands)
        else:
            self._owner.park(self)
        self.transport.allow(self.patience())

    def quit(self) -> None:
        """Close an idle connection."""
        self._owner.unpark(self)
        self.is_quitting = True
        self._pipeline.expected.append(SmtpPhase.QUIT)
        self.transport.write(b"QUIT\r\n")
        self.transport.allow(self.patience())

    def _park_or_quit(self) -> None:
        if self._pipeline.can_begin:
            self._owner.park(self)
        elif self.is_idle:
            self.quit()

    # Called by the transport.

    def good_replies_received(self, data: bytes) -> bool:
        """Handle the common case: exactly the expected replies, all of them good.

        Return False otherwise. The replies are then parsed one by one, which has the same outcome in three times the
        time.
        """
        pipeline = self._pipeline
        if pipeline.opening is None:
            return self._good_dot_received(data)
        good = _GOOD_REPLIES.get(len(pipeline.expected))
        if good is None or pipeline.expected != good.phases:
            return False
        match = good.pattern.fullmatch(data)
        if match is None:
            return False
        pipeline.expected.clear()
        if pipeline.filing is not None:
            pipeline.accept_filed(SmtpReply(OK, [match[1]]))
        pipeline.opening.has_reply = True
        pipeline.opening.recipients_answered = 1
        self._transactions.send_content(pipeline.opening)
        return True

    def _good_dot_received(self, data: bytes) -> bool:
        """Handle the reply that accepts the last message, if no other reply is expected."""
        expected = self._pipeline.expected
        if expected != _GOOD_DOT.phases or (match := _GOOD_DOT.pattern.fullmatch(data)) is None:
            return False
        expected.clear()
        self._transactions.on_dot_reply(SmtpReply(OK, [match[1]]))
        return True

    def reply_received(self, reply: SmtpReply, following: SmtpReply | None = None) -> None:
        expected = self._pipeline.expected
        if not expected:
            self._on_unsolicited_reply(reply)
        elif following is not None and self._is_contradicted(reply, following):
            # It is unknown which reply is about the message, so the message must not count as sent.
            self.transport.end(SessionEnd.GARBLED, f"{reply.status} and {following.status} as one reply")
        elif reply.code == 421:
            self._shut_down(expected.popleft(), reply)
        else:
            self._handlers[expected.popleft()](reply)

    def _is_contradicted(self, reply: SmtpReply, following: SmtpReply) -> bool:
        """Return whether an unsolicited reply arrived together with one that requests or accepts the content.

        A 421 is no contradiction, because the server may close the session right after it accepted the message.
        """
        pipeline = self._pipeline
        if len(pipeline.expected) > 1:
            return False
        match pipeline.expected[0]:
            case SmtpPhase.DATA:
                return reply.code == 354 and pipeline.opening is not None and pipeline.opening.verdict() is None
            case SmtpPhase.DOT:
                return reply.is_ok and following.is_refusal and following.code != 421
            case _:
                return False

    def patience(self) -> float:
        pipeline = self._pipeline
        if pipeline.expected:
            return self._timeout_of[pipeline.expected[0]]
        return self._timeouts.idle if pipeline.writing is None else self._timeouts.block

    def timed_out(self) -> None:
        if self.is_idle:
            self.quit()
        else:
            expected = self._pipeline.expected
            phase = f"reply to {expected[0].name}" if expected else "progress in the content"
            self.transport.end(SessionEnd.TIMED_OUT, f"no {phase} in {self.patience():g} s")

    def writable_again(self) -> None:
        pipeline = self._pipeline
        if pipeline.writing is not None:
            self._transactions.write_more(pipeline.writing)
            self.transport.allow(self.patience())
        elif pipeline.opening is None and self._is_pipelining and not self.is_quitting:
            self._transactions.begin_next()

    def connection_ended(self, ending: SessionEnd, detail: str) -> None:
        pipeline = self._pipeline
        if pipeline.filing is not None:
            pipeline.filing.settle(ENDED_AFTER[ending].result(f"after the last byte: {detail}"))
        for job in (pipeline.writing, pipeline.opening):
            if job is None:
                continue
            if pipeline.may_move(job) and ending is not SessionEnd.SHUT_DOWN:
                job.moves += 1
                self._owner.requeue(job)
            else:
                job.settle(ENDED_BEFORE[ending].result(detail))
        pipeline.clear()
        self._owner.lost(self)

    # Replies that end the session.

    def _on_quit_reply(self, reply: SmtpReply) -> None:
        self._report_retraction(reply)
        self.transport.close()

    def _on_unsolicited_reply(self, reply: SmtpReply) -> None:
        """End the session, which the server has usually closed because it was idle.

        An unsolicited reply during the content rejects it early; one right after a message retracts its acceptance.
        """
        pipeline = self._pipeline
        if pipeline.writing is None:
            self._report_retraction(reply)
        elif reply.is_refusal:
            pipeline.writing.settle(interpret_rejection(SmtpPhase.DOT, reply))
            pipeline.writing = None
        self.transport.end(SessionEnd.GARBLED, f"unsolicited reply: {reply.status} {reply.text}")

    def _report_retraction(self, reply: SmtpReply) -> None:
        """Report that the server rejected the last message it had accepted, which must not count as delivered."""
        accepted = self._pipeline.accepted
        if accepted is None or reply.code < 500 or ABOUT_THE_SESSION.search(reply.text):
            return
        self._pipeline.accepted = None
        self._owner.retracted(RetractedAcceptance(*accepted, interpret_rejection(SmtpPhase.DOT, reply)))

    def _shut_down(self, phase: SmtpPhase, reply: SmtpReply) -> None:
        """End the session after a 421. The reply is the message's result, unless another connection may send it."""
        pipeline = self._pipeline
        job = pipeline.filing if phase is SmtpPhase.DOT else pipeline.opening if phase in WHOLE_ENVELOPE else None
        if job is not None and not pipeline.may_move(job):
            pipeline.forget(job)
            job.settle(interpret_rejection(phase, reply))
        self.transport.end(SessionEnd.LOST, f"the server is closing: {reply.status} {reply.text}")
