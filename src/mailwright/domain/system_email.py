"""The content of an email that Mailwright writes itself, without its design."""

from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SystemEmail:
    """A text that asks for an action, a button for that action, and a note. All fields are plain text."""

    body: str
    button: str
    link: str
    note: str

    @property
    def text(self) -> str:
        """The plain text part."""
        return f"{self.body}\n\n{self.button}: {self.link}\n\n{self.note}\n"
