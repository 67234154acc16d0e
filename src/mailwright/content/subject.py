"""Rules for subjects. A subject that passes can always be written into a header."""

from mailwright.content.headers import find_unwritable

MAX_CHARACTERS = 150


def subject_problem(subject: str) -> str | None:
    """Return why a subject is not acceptable, or None."""
    if not subject.strip():
        return "The subject is empty."
    if len(subject) > MAX_CHARACTERS:
        return f"The subject has {len(subject)} characters; at most {MAX_CHARACTERS} are allowed."
    if character := find_unwritable(subject):
        return f"The subject contains {character}."
    return None
