"""The steps of an SMTP session. The step that failed decides what a failure means."""

from enum import Enum, auto


class SmtpPhase(Enum):
    CONNECT = auto()
    GREETING = auto()
    HELLO = auto()
    STARTTLS = auto()
    AUTH = auto()
    MAIL = auto()
    RCPT = auto()
    DATA = auto()
    DOT = auto()  # The end of the content: from here on the server may have the message.
    RESET = auto()
    LONE_DOT = auto()  # Cancels a transaction.
    QUIT = auto()

    # Hash members by identity: every reply is looked up by its phase, and hashing by name is measurably slow.
    __hash__ = object.__hash__
