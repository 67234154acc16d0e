"""Contacts of a tenant in the order in which they came: a list of them need not sort everyone first.

Only of those who are there: whoever looks for an address does not ask that, and can therefore not be led by a young
PostgreSQL, which knows nothing of its tables yet, through all of a tenant's people.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_THERE = sa.text("deleted_at IS NULL")


def upgrade() -> None:
    op.create_index("ix_contacts_there", "contacts", ["tenant_id", "id"], sqlite_where=_THERE, postgresql_where=_THERE)


def downgrade() -> None:
    op.drop_index("ix_contacts_there", table_name="contacts")
