"""Mail transactions: the replies to an envelope, then the content.

The content of a message and the envelope of the next share a write, so that a message costs one round trip (RFC 2920).
"""

from collections.abc import Callable

from mailwright.domain.results import SendResult
from mailwright.providers.smtp.job import SmtpJob
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.providers.smtp.pipeline import SmtpPipeline
from mailwright.providers.smtp.replies import SmtpReply
from mailwright.providers.smtp.responses import LOCK_EXPIRED, SessionEnd, interpret_rejection
from mailwright.providers.smtp.transport import SmtpTransport
from mailwright.providers.smtp.wire import wire_format

# A larger body is written in pieces of this size. The message can be withdrawn until the last piece is written.
CHUNK_BYTES = 64 * 1024


class SmtpTransactions:
    """Moves the messages of a pipeline from their envelope to the server's final reply."""

    __slots__ = ("_body_left", "_is_pipelining", "_on_no_message", "_pipeline", "_transport")

    def __init__(
        self,
        transport: SmtpTransport,
        pipeline: SmtpPipeline,
        on_no_message: Callable[[], None],
        *,
        is_pipelining: bool,
    ) -> None:
        """Create the transactions. `on_no_message` is called if no further message can begin now."""
        self._transport = transport
        self._pipeline = pipeline
        self._on_no_message = on_no_message
        self._is_pipelining = is_pipelining
        self._body_left = memoryview(b"")

    def begin_next(self) -> None:
        """Begin the next message. The previous envelope must be complete."""
        commands = self._pipeline.open_next()
        if commands:
            self._transport.write(commands)
        else:
            self._on_no_message()

    # Replies to the envelope.

    def on_mail_reply(self, reply: SmtpReply) -> None:
        job = self._pipeline.opening
        assert job is not None
        job.has_reply = True
        if not reply.is_ok:
            if not reply.is_refusal:
                self._out_of_step(job, SmtpPhase.MAIL, reply)
                return
            job.refusal = interpret_rejection(SmtpPhase.MAIL, reply)
        if not self._pipeline.expected:
            self._continue_envelope(job)

    def on_rcpt_reply(self, reply: SmtpReply) -> None:
        job = self._pipeline.opening
        assert job is not None
        if not reply.is_ok:
            if not reply.is_refusal:
                self._out_of_step(job, SmtpPhase.RCPT, reply)
                return
            job.refused_recipients[job.recipients_answered] = interpret_rejection(SmtpPhase.RCPT, reply)
        job.recipients_answered += 1
        if not self._pipeline.expected:
            self._continue_envelope(job)

    def on_data_reply(self, reply: SmtpReply) -> None:
        job = self._pipeline.opening
        assert job is not None
        verdict = job.verdict()
        if reply.code == 354:
            if verdict is None:
                self.send_content(job)
            elif job.has_recipients:
                # Sending only the final dot would deliver an empty message to the accepted recipients.
                self._abandon(job, verdict, "the server expects content for a rejected message")
            else:
                self._reset(job, verdict, b".\r\n", SmtpPhase.LONE_DOT)
        elif reply.is_refusal:
            self._reset(job, verdict or interpret_rejection(SmtpPhase.DATA, reply), b"RSET\r\n", SmtpPhase.RESET)
        else:
            self._out_of_step(job, SmtpPhase.DATA, reply)

    def _continue_envelope(self, job: SmtpJob) -> None:
        """Send the next commands. The server has replied to all previous ones, and DATA has not been sent yet."""
        is_complete = job.refusal is not None or job.recipients_answered == len(job.message.recipients)
        verdict = job.verdict() if is_complete else None
        if verdict is not None:
            self._reset(job, verdict, b"RSET\r\n", SmtpPhase.RESET)
        else:
            self._transport.write(self._pipeline.next_commands())

    def _reset(self, job: SmtpJob, verdict: SendResult, command: bytes, phase: SmtpPhase) -> None:
        """Reset the transaction; the connection continues with the next message."""
        job.settle(verdict)
        self._pipeline.opening = None
        self._pipeline.expected.append(phase)
        self._transport.write(command + (self._pipeline.open_next() if self._is_pipelining else b""))

    def on_reset_reply(self, reply: SmtpReply) -> None:
        if not reply.is_ok:
            self._transport.end(SessionEnd.LOST, f"the server rejected RSET: {reply.status} {reply.text}")
        elif self._pipeline.opening is None:
            self.begin_next()

    def on_lone_dot_reply(self, _reply: SmtpReply) -> None:
        if self._pipeline.opening is None:
            self.begin_next()

    # Sending the content.

    def send_content(self, job: SmtpJob) -> None:
        """Send the content of a message whose envelope the server accepted."""
        pipeline = self._pipeline
        if job.is_over:
            self._abandon(job, LOCK_EXPIRED.result("the send was cancelled"), "taken back")
        elif pipeline.is_too_late(job.message):
            result = LOCK_EXPIRED.result("the lease on the message ended before its content could be sent")
            self._abandon(job, result, "taken back")
        else:
            pipeline.opening = None
            content, end = wire_format(job.message)
            if len(content) <= CHUNK_BYTES:
                self._write_last(job, content, end)
            else:
                pipeline.writing = job
                self._body_left = memoryview(content + end)
                self.write_more(job)

    def write_more(self, job: SmtpJob) -> None:
        """Write as much of a large content as the transport accepts."""
        # Stop if the connection is closing, because it discards written bytes and never sends the last chunk.
        while not self._transport.is_full and not self._transport.is_closing:
            chunk, self._body_left = self._body_left[:CHUNK_BYTES], self._body_left[CHUNK_BYTES:]
            if not self._body_left:
                self._pipeline.writing = None
                self._write_last(job, chunk)
                return
            self._transport.write(chunk)

    def _write_last(self, job: SmtpJob, *rest: bytes | memoryview) -> None:
        pipeline = self._pipeline
        pipeline.file(job)
        following = pipeline.open_next() if self._is_pipelining else b""
        self._transport.write(b"".join((*rest, following)))
        if self._is_pipelining and not following and not self._transport.is_full:
            self._on_no_message()

    def on_dot_reply(self, reply: SmtpReply) -> None:
        job = self._pipeline.filing
        assert job is not None
        if reply.is_ok:
            self._pipeline.accept_filed(reply)
        elif reply.is_refusal:
            self._pipeline.filing = None
            job.settle(interpret_rejection(SmtpPhase.DOT, reply))
        else:
            self._transport.end(SessionEnd.GARBLED, f"not a reply to a message: {reply.status} {reply.text}")
            return
        if self._pipeline.opening is None:
            self.begin_next()

    # Failures.

    def _out_of_step(self, job: SmtpJob, phase: SmtpPhase, reply: SmtpReply) -> None:
        """End the session, because replies no longer match commands and a further reply could be misread."""
        self._abandon(job, interpret_rejection(phase, reply), f"{reply.status} is not a valid reply to {phase.name}")

    def _abandon(self, job: SmtpJob, result: SendResult, detail: str) -> None:
        """Withdraw a message before its last byte. Only closing the connection can undo an accepted DATA."""
        self._pipeline.forget(job)
        job.settle(result)
        self._transport.end(SessionEnd.LOST, detail)
