"""Add formats to webhooks."""

from mailwright.storage.revision import sql

# Processes that know this and no later revision can run beside it.
OLDEST_COMPATIBLE = "0001"
STEPS = (sql("ALTER TABLE webhook_endpoints ADD COLUMN format TEXT DEFAULT 'mailwright' NOT NULL"),)
