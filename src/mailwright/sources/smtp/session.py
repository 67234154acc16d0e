"""One client's dialogue: commands and their replies, without any I/O."""

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar, Final

from mailwright.content.raw import AmbiguousLines
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.api.raw import MAX_RECIPIENTS, Envelope, parse_recipient, parse_sender
from mailwright.sources.api.validation import RequestInvalid
from mailwright.sources.smtp import replies
from mailwright.sources.smtp.framing import PipelinedEnvelope
from mailwright.sources.smtp.replies import reply
from mailwright.sources.smtp.sign_in import SignIn
from mailwright.sources.smtp.steps import Client, Next, Step, Submitter

MAX_ERRORS: Final = 20

_FROM: Final = re.compile(r"FROM: ?<([^<>\s]*)>(?: (.*))?", re.IGNORECASE)
_TO: Final = re.compile(r"TO: ?<([^<>\s]+)>(?: (.*))?", re.IGNORECASE)
_CHUNK: Final = re.compile(r"([0-9]{1,12})( LAST)?", re.IGNORECASE)
_PARAMETERS: Final = frozenset({"BODY=7BIT", "BODY=8BITMIME", "SMTPUTF8"})
_OK: Final = Step(replies.OK)
_NEEDS_UTF8: Final = Step(replies.NEEDS_UTF8)
_START_DATA: Final = Step(replies.START_DATA, Next.DATA)
_START_EMAIL: Final = Step(replies.OK + replies.OK + replies.START_DATA, Next.DATA)


@dataclass(slots=True)
class Draft:
    """The email that a client is submitting, until its content is complete."""

    sender: str | None = None
    is_international: bool = False  # Whether addresses may have non-ASCII characters before the @ (SMTPUTF8).
    recipients: list[str] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    is_last_chunk: bool = False
    chunk_refusal: bytes | None = None  # Set if the bytes of the current chunk are read only to be dropped.

    @property
    def chunked_bytes(self) -> int:
        """The size of the chunks that are kept until the last one."""
        return sum(map(len, self.chunks))

    def allows(self, address: str) -> bool:
        return self.is_international or address.isascii()

    def refuse_content(self) -> bytes | None:
        if self.sender is None:
            return replies.MAIL_FIRST
        return None if self.recipients else replies.RECIPIENT_FIRST


class SubmissionSession:
    _needs_single_commands: ClassVar[bool] = False  # True if each command is interpreted elsewhere.

    def __init__(
        self, submitter: Submitter, *, request_id: str, name: str, address: str, can_start_tls: bool, needs_tls: bool
    ) -> None:
        """`name` is the server's host name, `address` the client's. `needs_tls` requires STARTTLS before AUTH."""
        self._submitter = submitter
        self._request_id = request_id
        self._name = name
        self.can_start_tls = can_start_tls
        self.needs_tls = needs_tls
        self._sign_in = SignIn(submitter, address)
        self._has_greeted = False
        self._errors = 0
        self.draft = Draft()

    @property
    def is_signed_in(self) -> bool:
        return self._sign_in.key is not None

    def execute(self, line: str) -> Step:
        """Interpret a command, or an answer within AUTH."""
        if self._sign_in.is_waiting:
            return self._counted(self._sign_in.answer(line))
        verb, _, argument = line.partition(" ")
        command = self._commands.get(verb.upper())
        return self._counted(command(self, argument.strip()) if command is not None else Step(replies.UNKNOWN))

    def begin_email(self, envelope: PipelinedEnvelope) -> Step | None:
        """Interpret MAIL, RCPT and DATA at once, which takes a third of the time.

        Returns None if one of them would be refused; they are then executed one by one.
        """
        if self._needs_single_commands or not self._has_greeted or not self.is_signed_in:
            return None
        if self.draft.sender is not None or envelope.size > self._submitter.max_bytes:
            return None
        try:
            sender, recipient = parse_sender(envelope.sender), parse_recipient(envelope.recipient, "to")
        except RequestInvalid:
            return None
        if not (sender.isascii() and recipient.isascii()):
            return None
        self.draft.sender = sender
        self.draft.recipients.append(recipient)
        return _START_EMAIL

    def secure(self) -> None:
        """Forget everything that the client sent before TLS (RFC 3207)."""
        self.can_start_tls = self.needs_tls = self._has_greeted = False
        self._sign_in.forget()
        self.draft = Draft()

    def close(self) -> None:
        """Do nothing at the end of the connection: the session holds no resources."""

    def finish_email(self, content: bytes) -> Step:
        """Submit the email of a DATA command, after removing dot-stuffing."""
        if content.startswith(b"."):
            content = content[1:]
        return self._submit(content.replace(b"\r\n.", b"\r\n") if b"\r\n." in content else content)

    def finish_chunk(self, content: bytes) -> Step:
        """Keep a chunk; the last one submits the email."""
        if self.draft.chunk_refusal is not None:
            return self.refuse(self.draft.chunk_refusal)
        self.draft.chunks.append(content)
        if self.draft.is_last_chunk:
            return self._submit(b"".join(self.draft.chunks))
        return Step(reply(250, "2.0.0", f"{len(content)} bytes"))

    def refuse(self, refusal: bytes, *, closes: bool = False) -> Step:
        """Refuse the current email."""
        self.draft = Draft()
        return self._counted(Step(refusal, Next.CLOSE if closes else Next.COMMAND))

    def _counted(self, step: Step) -> Step:
        if step.reply.startswith(b"5") and step.then is not Next.CLOSE:
            self._errors += 1
            if self._errors >= MAX_ERRORS:
                return Step(step.reply + replies.TOO_MANY_ERRORS, Next.CLOSE)
        return step

    def _hello(self, argument: str, *, has_extensions: bool = True) -> Step:
        if not argument:
            return Step(reply(501, "5.5.4", "Send your host name, for example EHLO app.example.com"))
        self._has_greeted = True
        self.draft = Draft()
        if not has_extensions:
            return Step(reply(250, "", self._name))
        lines = [self._name, f"SIZE {self._submitter.max_bytes}", "8BITMIME", "SMTPUTF8", "PIPELINING", "CHUNKING"]
        return Step(replies.multiline(250, [*lines, *connection_extensions(self), "ENHANCEDSTATUSCODES"]))

    def _start_tls(self, argument: str) -> Step:
        if argument:
            return Step(replies.NO_ARGUMENT)
        if not self.can_start_tls:
            return Step(reply(502, "5.5.1", "STARTTLS is not offered here"))
        return Step(reply(220, "2.0.0", "Begin the TLS handshake"), Next.START_TLS)

    def _authenticate(self, argument: str) -> Step:
        if not self._has_greeted:
            return Step(replies.HELLO_FIRST)
        if self.needs_tls:
            return Step(replies.NO_TLS_YET)
        if self.is_signed_in:
            return Step(reply(503, "5.5.1", "You have already signed in"))
        return self._sign_in.begin(argument)

    def _mail(self, argument: str) -> Step:
        if not self._has_greeted or not self.is_signed_in:
            return Step(replies.NOT_SIGNED_IN if self._has_greeted else replies.HELLO_FIRST)
        if self.draft.sender is not None:
            return Step(reply(503, "5.5.1", "There is already a sender; send RSET first"))
        found = _FROM.fullmatch(argument)
        if found is None:
            return Step(reply(501, "5.5.4", "Use MAIL FROM:<name@example.com>"))
        if found[2] and (refusal := _refuse_parameters(found[2], self._submitter.max_bytes)):
            return Step(refusal)
        try:
            sender = parse_sender(found[1])
        except RequestInvalid as error:
            return Step(reply(553, "5.1.7", str(error)))
        self.draft.is_international = "SMTPUTF8" in (found[2] or "").upper().split()
        if is_allowed := self.draft.allows(sender):
            self.draft.sender = sender
        return _OK if is_allowed else _NEEDS_UTF8

    def _recipient(self, argument: str) -> Step:
        if self.draft.sender is None or self.draft.chunks:
            return Step(replies.AFTER_CHUNKS if self.draft.chunks else replies.MAIL_FIRST)
        found = _TO.fullmatch(argument)
        if found is None:
            return Step(reply(501, "5.5.4", "Use RCPT TO:<name@example.com>"))
        if found[2]:
            return Step(reply(555, "5.5.4", "RCPT TO takes no parameters"))
        if len(self.draft.recipients) >= MAX_RECIPIENTS:
            return Step(reply(452, "4.5.3", f"An email has at most {MAX_RECIPIENTS} recipients; send the rest another"))
        try:
            recipient = parse_recipient(found[1], "to")
        except RequestInvalid as error:
            return Step(reply(553, "5.1.3", str(error)))
        if is_allowed := self.draft.allows(recipient):
            self.draft.recipients.append(recipient)
        return _OK if is_allowed else _NEEDS_UTF8

    def _data(self, argument: str) -> Step:
        if argument:
            return Step(replies.NO_ARGUMENT)
        if self.draft.chunks:
            return Step(replies.AFTER_CHUNKS)
        refusal = self.draft.refuse_content()
        return _START_DATA if refusal is None else Step(refusal)

    def _chunk(self, argument: str) -> Step:
        """Read the chunk even if it is refused, because its bytes would otherwise be taken for commands."""
        found = _CHUNK.fullmatch(argument)
        if found is None:  # It is unknown how many bytes follow.
            return Step(reply(501, "5.5.4", "Use BDAT size or BDAT size LAST"), Next.CLOSE)
        size, self.draft.is_last_chunk = int(found[1]), found[2] is not None
        self.draft.chunk_refusal = self.draft.refuse_content()
        if self.draft.chunk_refusal is None and size + self.draft.chunked_bytes > self._submitter.max_bytes:
            self.draft.chunk_refusal = replies.too_large(self._submitter.max_bytes)
        return Step(then=Next.CHUNK, chunk_bytes=size)

    def _submit(self, content: bytes) -> Step:
        envelope = Envelope(self.draft.sender or "", tuple(self.draft.recipients))
        self.draft = Draft()
        return Step(work=self._store(Client(self._sign_in.key or "", self._request_id), envelope, content))

    async def _store(self, client: Client, envelope: Envelope, content: bytes) -> Step:
        try:
            return Step(await self._submitter.submit(client, envelope, content))
        except Exception as error:
            refusal = replies.reply_to_error(error)
            if refusal is None:
                raise
            # Close the connection if the key was revoked. Close it also after line ends that other programs may read
            # differently, because the bytes after them may be a smuggled email.
            closes = refusal.startswith(b"535") or isinstance(error, AmbiguousLines)
            return self._counted(Step(refusal, Next.CLOSE if closes else Next.COMMAND))

    def _abort(self, argument: str) -> Step:
        if argument:
            return Step(replies.NO_ARGUMENT)
        self.draft = Draft()
        return _OK

    _commands: ClassVar[Mapping[str, Callable[[Any, str], Step]]] = {
        "EHLO": _hello,
        "HELO": lambda session, argument: session._hello(argument, has_extensions=False),
        "STARTTLS": _start_tls,
        "AUTH": _authenticate,
        "MAIL": _mail,
        "RCPT": _recipient,
        "DATA": _data,
        "BDAT": _chunk,
        "RSET": _abort,
        "NOOP": lambda _session, _argument: _OK,
        "QUIT": lambda _session, _argument: Step(replies.BYE, Next.CLOSE),
        "VRFY": lambda _session, _argument: Step(reply(252, "2.1.5", "Addresses are not verified; send the email")),
        "HELP": lambda _session, _argument: Step(reply(214, "2.0.0", "EHLO AUTH MAIL RCPT DATA BDAT RSET NOOP QUIT")),
    }


def connection_extensions(session: SubmissionSession) -> list[str]:
    """Return the extensions that concern only the connection with the client."""
    encryption = ["STARTTLS"] if session.can_start_tls else []
    return encryption if session.needs_tls else [*encryption, "AUTH PLAIN LOGIN"]


def _refuse_parameters(text: str, max_bytes: int) -> bytes | None:
    """Return the reply that refuses parameters of MAIL; None if all are valid. AUTH=, for relays, is ignored."""
    for parameter in text.upper().split():
        name, _, value = parameter.partition("=")
        if name == "SIZE" and value.isdecimal() and len(value) <= 20:
            if int(value) > max_bytes:
                return replies.too_large(max_bytes)
        elif parameter not in _PARAMETERS and name != "AUTH":
            return reply(555, "5.5.4", f"The parameter {parameter[:40]} is not supported")
    return None
