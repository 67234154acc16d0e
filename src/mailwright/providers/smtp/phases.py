"""The steps of an SMTP session. Which one failed decides what the failure means."""

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
    DOT = auto()  # the end of the content: from here on the server may have the mail
    RESET = auto()
    LONE_DOT = auto()  # ends a transaction that nobody wants any more
    QUIT = auto()

    # The members are singletons; hashing them by name is measurably slow where every reply is looked up.
    __hash__ = object.__hash__
