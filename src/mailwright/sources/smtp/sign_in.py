"""The AUTH dialogue (RFC 4954): PLAIN and LOGIN, with an API key as password."""

from base64 import b64decode
from binascii import Error as InvalidBase64
from collections.abc import Callable
from typing import Final

from mailwright.sources.smtp import replies
from mailwright.sources.smtp.replies import reply
from mailwright.sources.smtp.steps import Next, Step, Submitter

MAX_FAILED_SIGN_INS: Final = 3

_USER_PROMPT: Final = b"334 VXNlcm5hbWU6\r\n"
_PASSWORD_PROMPT: Final = b"334 UGFzc3dvcmQ6\r\n"
_CANCELLED: Final = reply(501, "5.7.0", "Authentication cancelled")
_INVALID_ANSWER: Final = reply(501, "5.5.2", "The response must be the user name and password in base64")


class SignIn:
    def __init__(self, submitter: Submitter, address: str) -> None:
        self._submitter = submitter
        self._address = address
        self._answering: Callable[[str], Step] | None = None  # Reads the client's next line.
        self._failures = 0
        self.key: str | None = None  # The API key of the client, once it has signed in.

    @property
    def is_waiting(self) -> bool:
        """Whether the client's next line is an AUTH response and not a command."""
        return self._answering is not None

    def begin(self, argument: str) -> Step:
        mechanism, _, initial = argument.partition(" ")
        match mechanism.upper(), initial:
            case "PLAIN", "":
                return self._ask(b"334 \r\n", self._plain)
            case "PLAIN", _:
                return self._plain(initial)
            case "LOGIN", "":
                return self._ask(_USER_PROMPT, self._user)
            case "LOGIN", _:
                return self._user(initial)
            case _:
                return Step(reply(504, "5.5.4", "Use AUTH PLAIN or AUTH LOGIN"))

    def answer(self, line: str) -> Step:
        answering, self._answering = self._answering, None
        return Step(_CANCELLED) if answering is None or line == "*" else answering(line)

    def forget(self) -> None:
        self.key = None

    def _ask(self, prompt: bytes, answering: Callable[[str], Step]) -> Step:
        self._answering = answering
        return Step(prompt)

    def _plain(self, answer: str) -> Step:
        parts = (_decoded(answer) or "").split("\0")
        return Step(work=self._check(parts[1], parts[2])) if len(parts) == 3 else Step(_INVALID_ANSWER)

    def _user(self, answer: str) -> Step:
        user = _decoded(answer)
        if user is None:
            return Step(_INVALID_ANSWER)
        return self._ask(_PASSWORD_PROMPT, lambda password: Step(work=self._check(user, _decoded(password) or "")))

    async def _check(self, user: str, key: str) -> Step:
        try:
            await self._submitter.sign_in(user, key, self._address)
        except Exception as error:
            refusal = replies.reply_to_error(error)
            if refusal is None:
                raise
            self._failures += 1
            is_over = self._failures >= MAX_FAILED_SIGN_INS
            return Step(refusal + replies.TOO_MANY_ERRORS, Next.CLOSE) if is_over else Step(refusal)
        self.key = key
        return Step(reply(235, "2.7.0", "Signed in"))


def _decoded(answer: str) -> str | None:
    try:
        return b64decode(answer, validate=True).decode()
    except (InvalidBase64, ValueError):
        return None
