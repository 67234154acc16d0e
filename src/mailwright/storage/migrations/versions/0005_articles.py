"""Articles: slices, variants that are written once, and runs."""

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Filled in by what needs it."""


def downgrade() -> None:
    raise RuntimeError("What it holds would be lost; restore a backup instead.")
