"""Create the initial schema."""

from alembic import op

from mailwright.storage.migrate import initial_schema

revision = "0001"
down_revision = None


def upgrade() -> None:
    for statement in initial_schema(op.get_context().dialect.name):
        op.execute(statement)


def downgrade() -> None:
    raise RuntimeError("Revision 0001 is the first one. Restore a backup instead.")
