"""Errors that callers handle differently. The docstring is the default message; `code` is stable."""

from mailwright.domain.translation import english_text, lazy_gettext, lazy_join, lazy_text


class MailwrightError(Exception):
    """An unexpected error occurred."""

    code = "INTERNAL_ERROR"
    text: str

    def __init__(self, message: str | None = None, /, *, field: str | None = None, **values: object) -> None:
        """Take an English message and the values of its placeholders, like `gettext`.

        `str(error)` is English, for the API, the command line and logs. `text` is for pages, in their language.
        """
        shown = {name: value.text if isinstance(value, MailwrightError) else value for name, value in values.items()}
        self.text = lazy_gettext(message or type(self).__doc__ or "", **shown)
        self.field = field
        super().__init__(english_text(self.text))


class InvalidInput(MailwrightError):
    """The request does not match its schema."""

    code = "INVALID_REQUEST"


class NotFound(MailwrightError):
    """Nothing with this id exists."""

    code = "NOT_FOUND"


class IdempotencyConflict(MailwrightError):
    """This idempotency key was already used with a different body."""

    code = "IDEMPOTENCY_CONFLICT"


class NotPossibleNow(MailwrightError):
    """The message's current state does not allow this operation."""

    code = "NOT_POSSIBLE_NOW"


class Unauthorized(MailwrightError):
    """The API key is missing, unknown or revoked."""

    code = "UNAUTHORIZED"


class NotDurable(MailwrightError):
    """The database cannot store this now. Retry shortly, with the same idempotency key if you used one."""

    code = "NOT_DURABLE"


class DatabaseBlocked(NotDurable):
    """The disk is full, another program holds a lock, or the server accepts no writes. The message says which."""


class DatabaseDamaged(NotDurable):
    """The database is damaged. Restore a backup."""  # Retrying does not help.


class DatabaseNotReady(NotDurable):
    """The database is missing, or has the schema of another version. Retrying does not help."""


class ConfigurationInvalid(MailwrightError):
    """The configuration has errors. Nothing was started."""

    code = "CONFIGURATION_INVALID"

    def __init__(self, *problems: str) -> None:
        """Collect all problems, so that they are reported together. Each problem begins with the setting's name."""
        super().__init__(lazy_join("\n", problems) if problems else None)
        self.problems = problems

    def of(self, setting: str) -> "ConfigurationInvalid":
        """Return an error in which each problem begins with the name of the setting."""
        return ConfigurationInvalid(*(setting_problem(setting, problem) for problem in self.problems))


def setting_problem(setting: str, problem: object) -> str:
    """Return a problem of a setting, in the language of the page that shows it."""
    return lazy_text(lambda: f"{setting}: {problem}")
