"""Count who consents to tracking by index."""

from mailwright.storage.revision import index

# Processes that know this and no later revision can run beside it.
OLDEST_COMPATIBLE = "0001"
STEPS = (
    index(
        "CREATE INDEX ix_contacts_asked ON contacts (tenant_id, consents_to_tracking)"
        " WHERE consents_to_tracking IS NOT NULL"
    ),
)
