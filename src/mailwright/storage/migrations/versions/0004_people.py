"""Who may enter: users, their sessions, what a key may do, and guesses that are counted."""

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Filled in by what needs it."""


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")
