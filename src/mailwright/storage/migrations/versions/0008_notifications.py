"""Notifications: which row of somebody else's queue became which message."""

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Filled in by what needs it."""


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")
