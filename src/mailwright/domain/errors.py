"""Errors that some caller treats differently. The docstring is the default message; `code` is stable."""


class MailwrightError(Exception):
    """Something went wrong."""

    code = "INTERNAL_ERROR"

    def __init__(self, message: str | None = None, *, field: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)
        self.field = field


class InvalidInput(MailwrightError):
    """The request breaks a rule of its schema."""

    code = "INVALID_REQUEST"


class NotFound(MailwrightError):
    """There is nothing with this id here."""

    code = "NOT_FOUND"


class IdempotencyConflict(MailwrightError):
    """This idempotency key was used before with another body."""

    code = "IDEMPOTENCY_CONFLICT"


class NotPossibleNow(MailwrightError):
    """The message is in a state in which this cannot be done."""

    code = "NOT_POSSIBLE_NOW"


class Unauthorized(MailwrightError):
    """The API key is missing, unknown or revoked."""

    code = "UNAUTHORIZED"


class NotDurable(MailwrightError):
    """The database cannot store this now. Try again soon, with the same idempotency key if there was one."""

    code = "NOT_DURABLE"


class ConfigurationInvalid(MailwrightError):
    """The configuration has errors; nothing was started."""

    code = "CONFIGURATION_INVALID"

    def __init__(self, *problems: str) -> None:
        """Each problem begins with the name to set: everything that is wrong is told at once."""
        super().__init__("\n".join(problems) or None)
        self.problems = problems
