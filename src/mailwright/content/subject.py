"""Rules for subjects. A subject that passes can always be written into a header."""

from mailwright.content.headers import MAX_LINE, find_unwritable
from mailwright.domain.translation import lazy_gettext

MAX_CHARACTERS = 150
# The limit for applications that were written for another email service, where only the header limits the subject.
MAX_LONG_CHARACTERS = MAX_LINE


def subject_problem(subject: str, *, is_free: bool = False) -> str | None:
    """Return why a subject is not acceptable, or None. If `is_free` is true, it may be empty or long."""
    most = MAX_LONG_CHARACTERS if is_free else MAX_CHARACTERS
    if not subject.strip() and not is_free:
        return lazy_gettext("The subject is empty.")
    if len(subject) > most:
        return lazy_gettext(
            "The subject has {characters} characters; at most {most} are allowed.", characters=len(subject), most=most
        )
    if character := find_unwritable(subject):
        return lazy_gettext("The subject contains {character}.", character=character)
    return None
