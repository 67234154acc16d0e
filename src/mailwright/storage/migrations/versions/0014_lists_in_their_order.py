"""Contacts of a tenant, and what was done to one thing, in their order: a list need not read and sort all of them.

Of contacts only those who are there: whoever looks for an address does not ask that, and can therefore not be led by a
young PostgreSQL, which knows nothing of its tables yet, through all of a tenant's people.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_THERE = sa.text("deleted_at IS NULL")


def upgrade() -> None:
    op.create_index("ix_contacts_there", "contacts", ["tenant_id", "id"], sqlite_where=_THERE, postgresql_where=_THERE)
    op.create_index("ix_audit_log_subject", "audit_log", ["subject", "tenant_id", "id"])


def downgrade() -> None:
    op.drop_index("ix_audit_log_subject", table_name="audit_log")
    op.drop_index("ix_contacts_there", table_name="contacts")
