-- Stores a report. One that is already stored gives no row.
INSERT INTO dmarc_reports (
  tenant_id, domain, policy_domain, reporter, report_id, begins_at, ends_at, policy, is_partial, messages, aligned,
  skipped_rows, sent, not_compared, received_at)
VALUES (
  :tenant_id, :domain, :policy_domain, :reporter, :report_id, :begins_at, :ends_at, :policy, CAST(:is_partial AS boolean),
  :messages, :aligned, :skipped_rows, :sent, :not_compared, :received_at)
ON CONFLICT (tenant_id, domain, reporter, report_id) DO NOTHING
RETURNING id
