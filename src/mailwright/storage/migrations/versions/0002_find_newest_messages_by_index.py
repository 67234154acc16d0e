"""Find the newest messages, and SES ids, in the reporting views by index."""

from mailwright.storage.revision import index, sql

_LOG = """
SELECT m.outbox_id AS "id", m.outbox_id AS "outboxId", t.name AS "companyId", m.recipient_id AS "recipientId",
  m.to_email AS "to", COALESCE(d.subject, m.subject) AS "subject", d.status AS "status", d.provider AS "provider",
  d.provider_message_id AS "providerMessageId", s.provider_message_id AS "sesMessageId",
  d.error_code AS "errorCode", d.error_reason AS "errorReason", d.attempts AS "attempts",
  d.duration_ms AS "durationMs", m.request_id AS "requestId", {created_at} AS "createdAt",
  {sent_at} AS "sentAt", {failed_at} AS "failedAt"
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id
-- Joined, so that a search for the id uses the index of provider message ids, whose condition is repeated here.
LEFT JOIN deliveries AS s ON s.message_key = m.id AND s.provider NOT IN ('mailbox', 'smtp', 'smtpbz')
  AND (s.provider = 'ses' OR s.provider IN (SELECT p.name FROM provider_configurations AS p WHERE p.kind = 'ses'))
"""
_SQLITE = "(strftime('%Y-%m-%dT%H:%M:%fZ', {} / 1000.0, 'unixepoch'))"
_POSTGRESQL = "(to_timestamp({} / 1000.0))"


def _index(time: str) -> str:
    # The time comes first, as the views state it, so that the newest messages are found. The tenant is read from the
    # index, so that a search in a small tenant does not read the messages of the others.
    return f"CREATE INDEX ix_messages_by_time ON messages ({time.format('created_at')}, tenant_id)"


def _log(time: str) -> str:
    return _LOG.format(
        created_at=time.format("m.created_at"), sent_at=time.format("d.sent_at"), failed_at=time.format("d.failed_at")
    )


# Processes that know this and no later revision can run beside it.
OLDEST_COMPATIBLE = "0001"
STEPS = (
    index(sqlite=_index(_SQLITE), postgresql=_index(_POSTGRESQL)),
    # Replaced and not deleted on PostgreSQL: a view keeps its privileges, and the views of others that read it.
    sql(sqlite="DROP VIEW email_logs"),
    sql(
        sqlite=f"CREATE VIEW email_logs AS {_log(_SQLITE)}",
        postgresql=f"CREATE OR REPLACE VIEW email_logs AS {_log(_POSTGRESQL)}",
    ),
    index("DROP INDEX ix_messages_reported"),
    # Autovacuum never analyzes so small a table. Without it, PostgreSQL expects few messages for the name of a tenant,
    # and reads all messages instead of the newest ones.
    sql(postgresql="ANALYZE tenants"),
)
