"""Rules for subjects. A subject that passes can always be written into a header."""

from mailwright.content.headers import MAX_LINE, find_unwritable

MAX_CHARACTERS = 150
# The limit of applications that were written for another service, whose subjects are only limited by the header.
MAX_LONG_CHARACTERS = MAX_LINE


def subject_problem(subject: str, *, is_free: bool = False) -> str | None:
    """Return why a subject is not acceptable, or None. One that `is_free` may be empty, and long."""
    most = MAX_LONG_CHARACTERS if is_free else MAX_CHARACTERS
    if not subject.strip() and not is_free:
        return "The subject is empty."
    if len(subject) > most:
        return f"The subject has {len(subject)} characters; at most {most} are allowed."
    if character := find_unwritable(subject):
        return f"The subject contains {character}."
    return None
