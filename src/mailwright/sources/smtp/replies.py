"""Replies of the SMTP server: a status, an enhanced status code (RFC 3463) and a sentence."""

from collections.abc import Sequence
from typing import Final

from mailwright.access.failed_sign_ins import TooManyFailedSignIns
from mailwright.access.roles import Forbidden
from mailwright.domain.errors import MailwrightError, NotDurable, Unauthorized
from mailwright.sources.api.senders import SenderNotAllowed
from mailwright.sources.smtp.intake_rate import IntakeRateExceeded

MAX_SENTENCE: Final = 400


def reply(status: int, code: str, sentence: str) -> bytes:
    """Return a reply of one line. Characters that a reply cannot contain are replaced."""
    line = f"{status} {code} {sentence}" if code else f"{status} {sentence}"
    return f"{_printable(line)}\r\n".encode("ascii", "replace")


def multiline(status: int, lines: Sequence[str]) -> bytes:
    """Return a reply of several lines."""
    marked = [f"{status}-{line}" for line in lines[:-1]] + [f"{status} {lines[-1]}"]
    return "".join([f"{_printable(line)}\r\n" for line in marked]).encode("ascii", "replace")


def _printable(line: str) -> str:
    if not line.isprintable():
        line = "".join(character if character.isprintable() else " " for character in line)
    return line[:MAX_SENTENCE]


OK: Final = reply(250, "2.0.0", "OK")
START_DATA: Final = reply(354, "", "End the email with a line that has only a dot")
BYE: Final = reply(221, "2.0.0", "Bye")
AFTER_CHUNKS: Final = reply(503, "5.5.1", "BDAT has begun; send the last chunk or RSET")
BAD_LINE_END: Final = reply(500, "5.5.2", "Lines must end in CRLF, without any other CR, LF or NUL")
LINE_TOO_LONG: Final = reply(500, "5.5.2", "The command is too long")
NEEDS_UTF8: Final = reply(553, "5.6.7", "Add SMTPUTF8 to MAIL FROM to use addresses with non-ASCII characters")
NOT_UTF8: Final = reply(500, "5.5.2", "The command is not UTF-8")
UNKNOWN: Final = reply(500, "5.5.1", "Unknown command")
NO_ARGUMENT: Final = reply(501, "5.5.4", "This command takes no argument")
TOO_MANY_ERRORS: Final = reply(421, "4.7.0", "Too many errors; connect again")
TOO_SLOW: Final = reply(421, "4.4.2", "Timeout: the client sent nothing, or sent too slowly")
STOPPING: Final = reply(421, "4.3.2", "The server is stopping; try again in a moment")
TOO_MANY_CONNECTIONS: Final = reply(421, "4.7.0", "Too many connections; try again in a moment")
NO_MEMORY: Final = reply(452, "4.3.1", "Too many large emails at once; try again in a moment")
UNEXPECTED: Final = reply(451, "4.3.0", "The email could not be stored because of an internal error; try again later")
NO_TLS_YET: Final = reply(538, "5.7.11", "Use STARTTLS first, because the password must be encrypted")
NOT_SIGNED_IN: Final = reply(530, "5.7.0", "Authentication required: user is apikey, password is an API key")
HELLO_FIRST: Final = reply(503, "5.5.1", "Send EHLO first")
MAIL_FIRST: Final = reply(503, "5.5.1", "Send MAIL FROM first")
RECIPIENT_FIRST: Final = reply(503, "5.5.1", "Send RCPT TO first: no recipient was accepted")


def too_large(max_bytes: int) -> bytes:
    return reply(552, "5.3.4", f"The email is larger than {max_bytes // 1024**2} MB")


def reply_to_error(error: Exception) -> bytes | None:
    """Return the reply to a known error; None for an unexpected one, which must be logged."""
    match error:
        case Unauthorized():
            sentence = "The API key is unknown or revoked, or the user name is neither apikey nor the name of the key"
            found = (535, "5.7.8", sentence)
        case Forbidden():
            found = (535, "5.7.8", str(error))
        case SenderNotAllowed():
            found = (553, "5.7.1", str(error))
        case TooManyFailedSignIns():
            found = (454, "4.7.0", f"Too many failed sign-ins; wait {error.retry_after_seconds} seconds")
        case IntakeRateExceeded():
            found = (451, "4.7.1", str(error))
        case NotDurable():
            found = (451, "4.3.0", "The database cannot store the email now; try again in a moment")
        case MailwrightError():
            found = (554, "5.6.0", str(error))
        case _:
            return None
    return reply(*found)
