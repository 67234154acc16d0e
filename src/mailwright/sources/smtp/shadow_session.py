"""The dialogue of shadow mode: every command of a transaction is passed on, and the relay's replies are returned.

The client gets a 250 only after the relay's. If this process dies after the relay's 250 and before the client's, the
client sends the email again, exactly as when a connection to the relay is lost at that moment.
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, Final

from mailwright.access.api_keys import Caller
from mailwright.ops.logs import logger
from mailwright.providers.smtp.phases import SmtpPhase
from mailwright.sources.smtp import replies
from mailwright.sources.smtp.relay import Relay, RelayUnavailable, Upstream
from mailwright.sources.smtp.replies import reply
from mailwright.sources.smtp.session import Draft, SubmissionSession, connection_extensions
from mailwright.sources.smtp.shadow import PassedEmail, ShadowRecorder
from mailwright.sources.smtp.steps import Client, Next, Step

log = logger(__name__)

_PATH: Final = re.compile(r"(?:FROM|TO):[ \t]*<([^>]*)>.*", re.IGNORECASE)
_UNREACHABLE: Final = reply(451, "4.4.1", "The relay cannot be reached now; try again in a moment")
_NO_CHUNKING: Final = reply(502, "5.5.1", "The relay does not support BDAT; use DATA")
_LOST: Final = reply(421, "4.4.2", "The relay ended the connection; it is not known whether it has the email")


class ShadowSession(SubmissionSession):
    _needs_single_commands = True

    def __init__(self, *arguments: Any, relay: Relay, recorder: ShadowRecorder, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._relay = relay
        self._upstream = Upstream(relay)
        self._recorder = recorder
        self._hostname = ""
        self._line = ""
        self._caller: Caller | None = None
        self._is_asking = False
        self._is_closed = False

    def execute(self, line: str) -> Step:
        self._line = line
        return super().execute(line)

    def close(self) -> None:
        """End the session with the relay, after its reply to an email that it has received completely."""
        self._is_closed = True
        if not self._is_asking:
            self._upstream.drop()

    def secure(self) -> None:
        super().secure()
        self._upstream.drop()

    def refuse(self, refusal: bytes, *, closes: bool = False) -> Step:
        """Refuse the current email. The relay, which waits for its content, drops it with the connection."""
        self._upstream.drop()
        return super().refuse(refusal, closes=closes)

    def finish_email(self, content: bytes) -> Step:
        """Pass the content on as it came, with its dots. `content` ends in CRLF or is empty."""
        plain = content[1:] if content.startswith(b".") else content
        return self._passing(self._finish(content + b".", plain.replace(b"\r\n.", b"\r\n")))

    def finish_chunk(self, content: bytes) -> Step:
        if self.draft.chunk_refusal is not None:
            return self.refuse(self.draft.chunk_refusal)
        self.draft.chunks.append(content)
        command = f"{self._line}\r\n".encode() + content
        if self.draft.is_last_chunk:
            return self._passing(self._finish(command, b"".join(self.draft.chunks), end=b""))
        return self._passing(self._exchange(SmtpPhase.DATA, command, b""))

    def _hello(self, argument: str, *, has_extensions: bool = True) -> Step:
        step = super()._hello(argument, has_extensions=has_extensions)
        if not argument:
            return step
        self._hostname = argument.split(maxsplit=1)[0]
        return self._passing(self._greet()) if has_extensions else step

    async def _greet(self) -> Step:
        self._upstream.drop()
        extensions = await self._relay.extensions(self._hostname, self._submitter.max_bytes)
        return Step(replies.multiline(250, [self._name, *extensions, *connection_extensions(self)]))

    def _mail(self, _argument: str) -> Step:
        if not self._has_greeted or not self.is_signed_in:
            return Step(replies.NOT_SIGNED_IN if self._has_greeted else replies.HELLO_FIRST)
        return self._passing(self._begin(self._line))

    def _recipient(self, _argument: str) -> Step:
        if self.draft.sender is None:
            return Step(replies.MAIL_FIRST)
        return self._passing(self._exchange(SmtpPhase.RCPT, self._line.encode()))

    def _data(self, argument: str) -> Step:
        step = super()._data(argument)
        return self._passing(self._exchange(SmtpPhase.DATA, b"DATA")) if step.then is Next.DATA else step

    def _chunk(self, argument: str) -> Step:
        """Refuse chunks that the relay does not support: it would read their content as commands."""
        step = super()._chunk(argument)
        if step.then is Next.CHUNK and not self._relay.offers("CHUNKING"):
            self.draft.chunk_refusal = self.draft.chunk_refusal or _NO_CHUNKING
        return step

    def _abort(self, argument: str) -> Step:
        if argument:
            return Step(replies.NO_ARGUMENT)
        self.draft = Draft()
        return self._passing(self._exchange(SmtpPhase.RESET, b"RSET")) if self._upstream.is_open else Step(replies.OK)

    def _quit(self, _argument: str) -> Step:
        self._upstream.quit()
        return Step(replies.BYE, Next.CLOSE)

    def _passing(self, work: Coroutine[Any, Any, Step]) -> Step:
        return Step(work=self._pass_on(work))

    async def _pass_on(self, work: Coroutine[Any, Any, Step]) -> Step:
        self._is_asking = True
        try:
            return self._counted(await work)
        except RelayUnavailable as error:
            log.warning("smtp_relay_failed", reason=str(error))
            self.draft = Draft()
            is_known = not self._upstream.is_open
            self._upstream.drop()
            return Step(_UNREACHABLE if is_known else _LOST, Next.COMMAND if is_known else Next.CLOSE)
        except Exception as error:
            refusal = replies.reply_to_error(error)
            if refusal is None:
                raise
            return Step(refusal, Next.CLOSE)
        finally:
            self._is_asking = False
            if self._is_closed:
                self._upstream.drop()

    async def _begin(self, line: str) -> Step:
        self._caller = await self._submitter.find_caller(Client(self._sign_in.key or "", self._request_id))
        answer = await self._upstream.begin(self._hostname, line.encode())
        if answer.startswith(b"2"):  # A new email, even if the relay refused the content of the previous one.
            self.draft = Draft(sender=_path(line))
        return Step(answer)

    async def _exchange(self, phase: SmtpPhase, data: bytes, end: bytes = b"\r\n") -> Step:
        """Pass on a command that has no other effect than its reply."""
        answer = await self._upstream.ask(phase, data, end)
        if phase is SmtpPhase.RCPT and answer.startswith(b"2"):
            self.draft.recipients.append(_path(data.decode()))
        return Step(answer, Next.DATA if answer.startswith(b"354") else Next.COMMAND)

    async def _finish(self, data: bytes, content: bytes, end: bytes = b"\r\n") -> Step:
        """Pass the end of the email on. After the client has the reply, record the relay's answer."""
        draft, self.draft = self.draft, Draft()
        answer = await self._upstream.ask(SmtpPhase.DOT, data, end)
        if self._caller is not None:
            passed = PassedEmail(self._caller, draft.sender or "", tuple(draft.recipients), content, answer)
            self._recorder.record(passed)
        return Step(answer)

    _commands: ClassVar[Mapping[str, Callable[[Any, str], Step]]] = {
        **SubmissionSession._commands,
        "EHLO": _hello,
        "MAIL": _mail,
        "RCPT": _recipient,
        "DATA": _data,
        "BDAT": _chunk,
        "RSET": _abort,
        "QUIT": _quit,
    }


def _path(line: str) -> str:
    """Return the address of MAIL or RCPT, which the relay has accepted."""
    found = _PATH.fullmatch(line.partition(" ")[2].strip())
    return found[1] if found else ""
