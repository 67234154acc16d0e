"""Turn errors into a message with the next step and a stable exit code."""

import sys
from collections.abc import Callable
from typing import Final

from mailwright.domain.errors import (
    ConfigurationInvalid,
    DatabaseBlocked,
    DatabaseDamaged,
    DatabaseNotReady,
    InvalidInput,
    MailwrightError,
    NotDurable,
)
from mailwright.texts.sentences import sentence

NEGATIVE: Final = 1
USAGE: Final = 2
DATABASE: Final = 3
NEWER_DATABASE: Final = 4
BUG: Final = 70  # EX_SOFTWARE of sysexits.h

EXIT_CODES: Final = (
    "0 success; 1 not found, not possible now, or a check failed; 2 wrong usage or settings; "
    "3 database or server unreachable, damaged or not set up; 4 database of a newer version; 70 a bug in Mailwright."
)

# Exit codes by the code of the error. All others exit with `NEGATIVE`.
_OTHER_CODES: Final = {"UNKNOWN_SCHEMA": NEWER_DATABASE, "SERVER_UNREACHABLE": DATABASE}

# The commands that help, by the code of the error.
_NEXT_STEPS: Final = {
    "KEY_WITHOUT_OWNER": "Set the owner with `mailwright key edit ID --owner LOGIN`.",
    "PLATFORM_KEY_REQUIRED": "Create a platform key with `mailwright key create --platform`.",
    "TENANT_MISSING": "Name one with --tenant, or give access to all of them with --all-tenants.",
    "TENANT_KEY_REQUIRED": "Create a key of the tenant with `mailwright key create --tenant NAME`.",
    "PROVIDER_HAS_MESSAGES": "List those in doubt with `mailwright message list --status in_doubt`.",
    "SENDER_DOMAIN_NOT_VERIFIED": "Add a domain with `mailwright domain add NAME`, or check it with `mailwright domain "
    "check NAME`.",
}


def report_error(error: BaseException, option_name: Callable[[str], str] = str) -> int:
    """Print the error and return the exit code. `option_name` maps an API field to the command's option."""
    error = _innermost(error)
    if _is_schema_mismatch(error):
        return _say(DATABASE, "The database schema does not match this version.", "Run `mailwright db upgrade`.")
    match error:
        case ConfigurationInvalid():
            return _say(
                USAGE,
                _counted(error.problems),
                *(f"  {problem}" for problem in error.problems),
                "Settings come from the environment or from mailwright.toml. Nothing was started.",
            )
        case InvalidInput():
            return _say(USAGE, *_with_fields(error, option_name), *_next_steps(error))
        case NotDurable():
            return _say(DATABASE, str(error), *_database_advice(error))
        case MailwrightError():
            return _say(_OTHER_CODES.get(error.code, NEGATIVE), sentence(str(error)), *_next_steps(error))
        case _:
            return _say(
                BUG,
                f"Unexpected error: {type(error).__name__}: {error}",
                "This is a bug in Mailwright. Run the command again with MAILWRIGHT_DEBUG=1 and report the traceback.",
            )


def _with_fields(error: InvalidInput, option_name: Callable[[str], str]) -> list[str]:
    """Prefix each message with its option or field, unless the message already names it."""
    message = str(error)
    if several := getattr(error, "errors", ()):
        return [f"{option_name(each.field)}: {each.message}" for each in several]
    if not error.field:
        return [sentence(message)]
    return [f"{option_name(error.field)}: {message.removeprefix(f'{error.field}: ')}"]


def _is_schema_mismatch(error: BaseException) -> bool:
    if isinstance(error, MailwrightError) and not isinstance(error, NotDurable):
        return False
    from mailwright.storage.database import is_schema_mismatch  # noqa: PLC0415 - slow to import

    return is_schema_mismatch(error)


def _next_steps(error: MailwrightError) -> list[str]:
    """Return the commands that solve the problem."""
    if error.code in _NEXT_STEPS:
        return [_NEXT_STEPS[error.code]]
    from mailwright.audience.importing.columns import InvalidColumns  # noqa: PLC0415 - slow to import
    from mailwright.audience.lists import NoSuchList, UnknownList  # noqa: PLC0415 - slow to import

    if isinstance(error, InvalidColumns):
        return ["Map a column with `--map E-Mail=email`, or skip it with `--map Notes=-`."]
    if isinstance(error, UnknownList | NoSuchList):
        return [f"Create it with `mailwright list create {error.list_key}`."]
    return []


def _innermost(error: BaseException) -> BaseException:
    """Unwrap exception groups of one, which task groups create."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _counted(problems: tuple[str, ...]) -> str:
    return "The configuration has an error:" if len(problems) == 1 else f"The configuration has {len(problems)} errors:"


def _database_advice(error: NotDurable) -> list[str]:
    from mailwright.storage.schema_state import SchemaOutdated  # noqa: PLC0415 - slow to import

    if isinstance(error, SchemaOutdated):
        return ["Run `mailwright db upgrade`."]
    if isinstance(error, DatabaseBlocked | DatabaseDamaged | DatabaseNotReady):
        return []
    return ["Check that the database is running and MAILWRIGHT_DATABASE_URL is right, then run `mailwright check`."]


def _say(code: int, *lines: str) -> int:
    for line in lines:
        print(line, file=sys.stderr)
    return code
