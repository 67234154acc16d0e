"""The phases of an SMTP session. The meaning of a failure depends on its phase."""

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
    DOT = auto()  # The end of the content. Afterwards the server may have the message.
    RESET = auto()
    LONE_DOT = auto()  # Cancels a transaction.
    QUIT = auto()

    # Hash members by identity, because every reply is looked up by its phase and hashing by name is slow.
    __hash__ = object.__hash__
