"""How a command ends: errors become a sentence that says what to do, and an exit code that scripts can trust."""

import re
import sys
from typing import Final

from mailwright.domain.errors import ConfigurationInvalid, InvalidInput, MailwrightError, NotDurable

NEGATIVE: Final = 1
USAGE: Final = 2
DATABASE: Final = 3
OUR_BUG: Final = 70  # sysexits.h: an internal software error

EXIT_CODES: Final = (
    "0 done; 1 the answer is no (not found, not possible now, a check or the audit failed); "
    "2 wrong usage or settings; 3 the database is out of reach or not set up; 70 a bug of ours."
)

_SET_UP: Final = re.compile(
    r"no such (table|column)|has no column named|relation .* does not exist|column .* does not exist"
)


def ending(error: BaseException) -> int:
    """Prints what went wrong and answers with the exit code."""
    error = _innermost(error)
    if _SET_UP.search(str(error)):
        return _say(DATABASE, "The database is not set up, or not for this version.", "Run `mailwright db upgrade`.")
    match error:
        case ConfigurationInvalid():
            return _say(
                USAGE,
                _counted(error.problems),
                *(f"  {problem}" for problem in error.problems),
                "Settings come from the environment or from mailwright.toml; nothing was started.",
            )
        case InvalidInput():
            return _say(USAGE, _with_field(error))
        case NotDurable():
            return _say(DATABASE, str(error), *_look_closer(str(error)))
        case MailwrightError():
            return _say(NEGATIVE, sentence(str(error)))
        case _:
            return _say(
                OUR_BUG,
                f"Mailwright did not expect this: {type(error).__name__}: {error}",
                "That is a bug of ours. Run the command again with MAILWRIGHT_DEBUG=1 to see where, and report it.",
            )


def sentence(text: str) -> str:
    """A capital at the beginning and a full stop at the end, whoever wrote the words."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _with_field(error: InvalidInput) -> str:
    """Named once: what tells of several fields at once names each by itself."""
    told = str(error)
    if not error.field:
        return sentence(told)
    return told if told.startswith(f"{error.field}: ") else f"{error.field}: {told}"


def _innermost(error: BaseException) -> BaseException:
    """A group of one is that one: tasks that run side by side wrap what went wrong."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _counted(problems: tuple[str, ...]) -> str:
    return "The configuration has an error:" if len(problems) == 1 else f"The configuration has {len(problems)} errors:"


def _look_closer(told: str) -> list[str]:
    if "`mailwright " in told:
        return []
    return ["Is the database running, and is MAILWRIGHT_DATABASE_URL right? `mailwright check` looks closer."]


def _say(code: int, *lines: str) -> int:
    for line in lines:
        print(line, file=sys.stderr)
    return code
