"""Contacts of a tenant in the order in which they came: a list of them need not sort everyone first."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_index("ix_contacts_tenant_id_id", "contacts", ["tenant_id", "id"])


def downgrade() -> None:
    op.drop_index("ix_contacts_tenant_id_id", table_name="contacts")
