"""Mailouts: runs that are triggered from elsewhere, and what is still to be reported back."""

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Filled in by what needs it."""


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")
