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
    LONE_DOT = auto()  # Ends a transaction that is no longer wanted.
    QUIT = auto()

    # The members are singletons; hashing them by name is measurably slow because every reply is looked up.
    __hash__ = object.__hash__
