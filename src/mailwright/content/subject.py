"""Subjects: what may stand in one. A subject that passes here can always be written into a header."""

from mailwright.content.headers import find_unwritable

MAX_CHARACTERS = 150


def subject_problem(subject: str) -> str | None:
    """The reason why this cannot be a subject, or None."""
    if not subject.strip():
        return "the subject is empty"
    if len(subject) > MAX_CHARACTERS:
        return f"the subject has {len(subject)} characters, at most {MAX_CHARACTERS} are allowed"
    if character := find_unwritable(subject):
        return f"the subject contains {character}"
    return None
