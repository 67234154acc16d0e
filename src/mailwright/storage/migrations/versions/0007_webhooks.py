"""Webhooks: whom to tell what happened, and what was told."""

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Filled in by what needs it."""


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")
