-- The schema of revision 0001 for SQLite. Frozen: a change of the schema is a revision of its own.

-- The revisions that the database has, and how far an unfinished one is. `oldest_compatible` is the oldest revision
-- whose processes can run beside it.
CREATE TABLE schema_revisions (
  revision TEXT NOT NULL,
  mailwright_version TEXT NOT NULL,
  oldest_compatible TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  finished_at BIGINT,
  step INTEGER DEFAULT 0 NOT NULL,
  position BIGINT,
  CONSTRAINT pk_schema_revisions PRIMARY KEY (revision)
);

CREATE TABLE tenants (
  id INTEGER NOT NULL,
  name TEXT NOT NULL,
  weight INTEGER DEFAULT 1 NOT NULL,
  max_in_flight INTEGER,
  rate_per_second INTEGER,
  rate_per_hour INTEGER,
  daily_limit INTEGER,
  working_hours TEXT,
  timezone TEXT,
  created_at BIGINT NOT NULL,
  warmup_since TEXT,
  interval_ms INTEGER,
  one_at_a_time BOOLEAN,
  tracking TEXT,
  tracking_host TEXT,
  guard_rails TEXT,
  frequency_cap TEXT,
  reply_forward_to TEXT,
  sections TEXT DEFAULT '' NOT NULL,
  brand TEXT,
  requires_second_factor BOOLEAN DEFAULT false NOT NULL,
  approval_over INTEGER,
  senders_restricted_since BIGINT,
  CONSTRAINT pk_tenants PRIMARY KEY (id),
  CONSTRAINT uq_tenants_name UNIQUE (name)
);

CREATE TABLE api_keys (
  id INTEGER NOT NULL,
  tenant_id BIGINT,
  name TEXT NOT NULL,
  hint TEXT NOT NULL,
  digest TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  revoked_at BIGINT,
  scopes TEXT DEFAULT 'send read manage' NOT NULL,
  senders TEXT,
  access_key_id TEXT,
  encrypted_key TEXT,
  owner TEXT,
  CONSTRAINT pk_api_keys PRIMARY KEY (id),
  CONSTRAINT uq_api_keys_digest UNIQUE (digest),
  CONSTRAINT uq_api_keys_access_key_id UNIQUE (access_key_id)
);

CREATE TABLE shadow_emails (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  key_digest TEXT,
  body_digest TEXT NOT NULL,
  recipient TEXT NOT NULL,
  from_domain TEXT,
  size_bytes BIGINT NOT NULL,
  is_accepted BOOLEAN NOT NULL,
  relay_reply TEXT NOT NULL,
  findings TEXT NOT NULL,
  detail TEXT NOT NULL,
  CONSTRAINT pk_shadow_emails PRIMARY KEY (id)
);

CREATE INDEX ix_shadow_emails_time ON shadow_emails (tenant_id, created_at);
CREATE INDEX ix_shadow_emails_key ON shadow_emails (tenant_id, key_digest);

CREATE TABLE contacts (
  id INTEGER NOT NULL,
  contact_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  email TEXT NOT NULL,
  name TEXT,
  status TEXT DEFAULT 'active' NOT NULL,
  created_at BIGINT NOT NULL,
  deleted_at BIGINT,
  status_updated_at BIGINT,
  status_source TEXT,
  bounce_type TEXT,
  bounce_subtype TEXT,
  locale TEXT,
  timezone TEXT,
  attributes TEXT DEFAULT '{}' NOT NULL,
  legal_basis TEXT,
  legal_basis_source TEXT,
  legal_basis_by TEXT,
  legal_basis_at BIGINT,
  consents_to_tracking BOOLEAN,
  tracking_consent_wording TEXT,
  tracking_consent_source TEXT,
  tracking_consent_at BIGINT,
  snoozed_until BIGINT,
  CONSTRAINT pk_contacts PRIMARY KEY (id),
  CONSTRAINT uq_contacts_contact_id UNIQUE (contact_id),
  CONSTRAINT uq_contacts_tenant_id_email UNIQUE (tenant_id, email)
);
CREATE INDEX ix_contacts_inactive ON contacts (tenant_id, id) WHERE status <> 'active';
CREATE INDEX ix_contacts_snoozed ON contacts (email, snoozed_until) WHERE snoozed_until IS NOT NULL;
CREATE INDEX ix_contacts_not_deleted ON contacts (tenant_id, id) WHERE deleted_at IS NULL;

CREATE TABLE contact_tags (
  contact_key INTEGER NOT NULL,
  tag TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  CONSTRAINT pk_contact_tags PRIMARY KEY (contact_key, tag)
);
CREATE INDEX ix_contact_tags_of_tenant ON contact_tags (tenant_id, tag, contact_key);

CREATE TABLE contact_events (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  event_id TEXT NOT NULL,
  email TEXT NOT NULL,
  name TEXT NOT NULL,
  properties TEXT NOT NULL,
  occurred_at BIGINT NOT NULL,
  received_at BIGINT NOT NULL,
  CONSTRAINT pk_contact_events PRIMARY KEY (id AUTOINCREMENT),
  CONSTRAINT uq_contact_events_event_id_tenant_id UNIQUE (event_id, tenant_id)
);
CREATE INDEX ix_contact_events_of_contact ON contact_events (tenant_id, email, name, occurred_at);
CREATE INDEX ix_contact_events_received ON contact_events (tenant_id, received_at);

CREATE TABLE contact_external_ids (
  tenant_id BIGINT NOT NULL,
  external_id TEXT NOT NULL,
  email TEXT NOT NULL,
  CONSTRAINT pk_contact_external_ids PRIMARY KEY (tenant_id, external_id)
);
CREATE INDEX ix_contact_external_ids_email ON contact_external_ids (tenant_id, email);

CREATE TABLE contact_event_names (
  tenant_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  events BIGINT NOT NULL,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  CONSTRAINT pk_contact_event_names PRIMARY KEY (tenant_id, name)
);

CREATE TABLE contact_event_properties (
  tenant_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  property TEXT NOT NULL,
  type TEXT NOT NULL,
  events BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  CONSTRAINT pk_contact_event_properties PRIMARY KEY (tenant_id, name, property, type)
);

CREATE TABLE segments (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  segment_key TEXT NOT NULL,
  name TEXT NOT NULL,
  filter TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_segments PRIMARY KEY (id),
  CONSTRAINT uq_segments_tenant_id_segment_key UNIQUE (tenant_id, segment_key)
);

CREATE TABLE lists (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  list_key TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT,
  is_public BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL,
  requires_confirmation BOOLEAN DEFAULT false NOT NULL,
  tracking TEXT,
  archived_at BIGINT,
  CONSTRAINT pk_lists PRIMARY KEY (id),
  CONSTRAINT uq_lists_tenant_id_list_key UNIQUE (tenant_id, list_key)
);

CREATE TABLE forms (
  id INTEGER NOT NULL,
  form_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  list_key TEXT NOT NULL,
  content TEXT NOT NULL,
  version INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_forms PRIMARY KEY (id),
  CONSTRAINT uq_forms_form_id UNIQUE (form_id)
);
CREATE INDEX ix_forms_tenant_id ON forms (tenant_id);

CREATE TABLE form_submissions (
  id INTEGER NOT NULL,
  submission_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  contact_key BIGINT NOT NULL,
  form_id TEXT NOT NULL,
  form_version INTEGER NOT NULL,
  list_key TEXT NOT NULL,
  attributes TEXT NOT NULL,
  consents TEXT NOT NULL,
  locale TEXT NOT NULL,
  source TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  confirmed_at BIGINT,
  CONSTRAINT pk_form_submissions PRIMARY KEY (id),
  CONSTRAINT uq_form_submissions_submission_id UNIQUE (submission_id)
);
CREATE INDEX ix_form_submissions_contact_key ON form_submissions (contact_key);
CREATE INDEX ix_form_submissions_form_id ON form_submissions (tenant_id, form_id);

CREATE TABLE subscriptions (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  contact_key BIGINT NOT NULL,
  list_key TEXT NOT NULL,
  subscribed_at BIGINT,
  unsubscribed_at BIGINT,
  source TEXT NOT NULL,
  is_pending BOOLEAN DEFAULT false NOT NULL,
  confirmed_at BIGINT,
  requested_consent TEXT,
  CONSTRAINT pk_subscriptions PRIMARY KEY (id),
  CONSTRAINT uq_subscriptions_contact_key_list_key UNIQUE (contact_key, list_key)
);
CREATE INDEX ix_subscriptions_of_list ON subscriptions (tenant_id, list_key, contact_key)
  WHERE unsubscribed_at IS NULL;
CREATE INDEX ix_subscriptions_left ON subscriptions (tenant_id, contact_key)
  WHERE unsubscribed_at IS NOT NULL;

CREATE TABLE sequences (
  id INTEGER NOT NULL,
  sequence_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  draft TEXT NOT NULL,
  revision INTEGER NOT NULL,
  version INTEGER,
  trigger_kind TEXT,
  trigger_value TEXT,
  reentry_days INTEGER,
  list_key TEXT,
  compared_at BIGINT,
  last_day TEXT,
  events_after BIGINT,
  next_entry_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_sequences PRIMARY KEY (id),
  CONSTRAINT uq_sequences_sequence_id UNIQUE (sequence_id)
);
CREATE INDEX ix_sequences_tenant_id_id ON sequences (tenant_id, id);
CREATE INDEX ix_sequences_trigger ON sequences (tenant_id, trigger_kind, trigger_value);

CREATE TABLE sequence_versions (
  id INTEGER NOT NULL,
  sequence_key BIGINT NOT NULL,
  version INTEGER NOT NULL,
  document TEXT NOT NULL,
  published_at BIGINT NOT NULL,
  published_by TEXT NOT NULL,
  CONSTRAINT pk_sequence_versions PRIMARY KEY (id),
  CONSTRAINT uq_sequence_versions_sequence_key_version UNIQUE (sequence_key, version)
);

CREATE TABLE sequence_enrolments (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  sequence_key BIGINT NOT NULL,
  contact_key BIGINT NOT NULL,
  run INTEGER NOT NULL,
  entered_at BIGINT NOT NULL,
  entered_because TEXT NOT NULL,
  node TEXT,
  visit INTEGER DEFAULT 0 NOT NULL,
  waits_since BIGINT,
  due_at BIGINT,
  skips_email BOOLEAN DEFAULT false NOT NULL,
  received_steps TEXT,
  failure TEXT,
  ended_at BIGINT,
  end_reason TEXT,
  event_key BIGINT,
  item_key BIGINT,
  events_after BIGINT NOT NULL,
  CONSTRAINT pk_sequence_enrolments PRIMARY KEY (id AUTOINCREMENT)
);
CREATE UNIQUE INDEX uq_sequence_enrolments_running ON sequence_enrolments (sequence_key, contact_key)
  WHERE ended_at IS NULL;
CREATE INDEX ix_sequence_enrolments_due ON sequence_enrolments (sequence_key, due_at)
  WHERE ended_at IS NULL AND due_at IS NOT NULL;
CREATE INDEX ix_sequence_enrolments_contact_key ON sequence_enrolments (contact_key, sequence_key);
CREATE INDEX ix_sequence_enrolments_sequence_key_id ON sequence_enrolments (sequence_key, id);
CREATE INDEX ix_sequence_enrolments_ended_at ON sequence_enrolments (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX ix_sequence_enrolments_finished ON sequence_enrolments (sequence_key, ended_at)
  WHERE end_reason = 'finished';

CREATE TABLE sequence_steps (
  id INTEGER NOT NULL,
  enrolment_key BIGINT NOT NULL,
  visit INTEGER NOT NULL,
  version INTEGER NOT NULL,
  node TEXT NOT NULL,
  kind TEXT NOT NULL,
  at BIGINT NOT NULL,
  outcome TEXT NOT NULL,
  outbox_id TEXT,
  CONSTRAINT pk_sequence_steps PRIMARY KEY (id),
  CONSTRAINT uq_sequence_steps_enrolment_key_visit UNIQUE (enrolment_key, visit)
);

CREATE TABLE sequence_members (
  sequence_key INTEGER NOT NULL,
  contact_key INTEGER NOT NULL,
  CONSTRAINT pk_sequence_members PRIMARY KEY (sequence_key, contact_key)
);

CREATE TABLE followed_feeds (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  owner_kind TEXT NOT NULL,
  owner_key BIGINT NOT NULL,
  url TEXT NOT NULL,
  due_at BIGINT NOT NULL,
  read_at BIGINT,
  error TEXT,
  newest TEXT,
  validators TEXT,
  CONSTRAINT pk_followed_feeds PRIMARY KEY (id AUTOINCREMENT),
  CONSTRAINT uq_followed_feeds_owner_kind_owner_key UNIQUE (owner_kind, owner_key)
);
CREATE INDEX ix_followed_feeds_due_at ON followed_feeds (due_at);

CREATE TABLE feed_items (
  id INTEGER NOT NULL,
  feed_key BIGINT NOT NULL,
  content TEXT NOT NULL,
  found_at BIGINT NOT NULL,
  used_at BIGINT,
  CONSTRAINT pk_feed_items PRIMARY KEY (id AUTOINCREMENT)
);
CREATE INDEX ix_feed_items_feed_key_id ON feed_items (feed_key, id);

CREATE TABLE feed_item_marks (
  feed_key INTEGER NOT NULL,
  mark TEXT NOT NULL,
  seen_at BIGINT NOT NULL,
  CONSTRAINT pk_feed_item_marks PRIMARY KEY (feed_key, mark)
);

CREATE TABLE deleted_lists (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  list_key TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT,
  is_public BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL,
  requires_confirmation BOOLEAN NOT NULL,
  tracking TEXT,
  archived_at BIGINT,
  deleted_at BIGINT NOT NULL,
  deleted_by TEXT NOT NULL,
  CONSTRAINT pk_deleted_lists PRIMARY KEY (id),
  CONSTRAINT uq_deleted_lists_tenant_id_list_key UNIQUE (tenant_id, list_key)
);

CREATE TABLE deleted_subscriptions (
  deleted_list INTEGER NOT NULL,
  contact_key INTEGER NOT NULL,
  subscribed_at BIGINT,
  source TEXT NOT NULL,
  is_pending BOOLEAN NOT NULL,
  confirmed_at BIGINT,
  requested_consent TEXT,
  CONSTRAINT pk_deleted_subscriptions PRIMARY KEY (deleted_list, contact_key)
);
CREATE INDEX ix_deleted_subscriptions_contact_key ON deleted_subscriptions (contact_key);

CREATE TABLE imports (
  id INTEGER NOT NULL,
  import_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  file_name TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  plan TEXT NOT NULL,
  records BIGINT NOT NULL,
  read_bytes BIGINT NOT NULL,
  report_bytes BIGINT NOT NULL,
  added BIGINT NOT NULL,
  changed BIGINT NOT NULL,
  unchanged BIGINT NOT NULL,
  refused BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  finished_at BIGINT,
  CONSTRAINT pk_imports PRIMARY KEY (id),
  CONSTRAINT uq_imports_import_id UNIQUE (import_id)
);
CREATE INDEX ix_imports_tenant_id_id ON imports (tenant_id, id);

CREATE TABLE suppressions (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  email TEXT NOT NULL,
  reason TEXT NOT NULL,
  source TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  list_key TEXT DEFAULT '*' NOT NULL,
  CONSTRAINT pk_suppressions PRIMARY KEY (id),
  CONSTRAINT uq_suppressions_tenant_id_email_list_key UNIQUE (tenant_id, email, list_key)
);

CREATE TABLE erasures (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  email TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  requested_at BIGINT NOT NULL,
  waits_for TEXT,
  expected_at BIGINT,
  CONSTRAINT pk_erasures PRIMARY KEY (id),
  CONSTRAINT uq_erasures_tenant_id_email UNIQUE (tenant_id, email)
);

CREATE TABLE templates (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  template_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  subject TEXT NOT NULL,
  html TEXT NOT NULL,
  text TEXT,
  created_at BIGINT NOT NULL,
  locale TEXT DEFAULT '' NOT NULL,
  format TEXT DEFAULT 'html' NOT NULL,
  source TEXT,
  variables TEXT DEFAULT '[]' NOT NULL,
  segments TEXT DEFAULT '[]' NOT NULL,
  brand TEXT,
  archived_at BIGINT,
  deleted_at BIGINT,
  CONSTRAINT pk_templates PRIMARY KEY (id),
  CONSTRAINT uq_templates_tenant_id_template_id_version UNIQUE (tenant_id, template_id, version)
);

CREATE TABLE template_drafts (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  template_id TEXT NOT NULL,
  locale TEXT DEFAULT '' NOT NULL,
  revision INTEGER NOT NULL,
  base_version INTEGER NOT NULL,
  subject TEXT NOT NULL,
  document TEXT,
  saved_by TEXT NOT NULL,
  saved_at BIGINT NOT NULL,
  CONSTRAINT pk_template_drafts PRIMARY KEY (id),
  CONSTRAINT uq_template_drafts_tenant_id_template_id_locale UNIQUE (tenant_id, template_id, locale)
);

CREATE TABLE template_editors (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  template_id TEXT NOT NULL,
  locale TEXT DEFAULT '' NOT NULL,
  editor TEXT NOT NULL,
  login TEXT NOT NULL,
  seen_at BIGINT NOT NULL,
  CONSTRAINT pk_template_editors PRIMARY KEY (id),
  CONSTRAINT uq_template_editors_tenant_id_template_id_locale_editor UNIQUE (tenant_id, template_id, locale, editor)
);

CREATE TABLE images (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  extension TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  alt TEXT DEFAULT '' NOT NULL,
  deleted_at BIGINT,
  CONSTRAINT pk_images PRIMARY KEY (id),
  CONSTRAINT uq_images_tenant_id_name UNIQUE (tenant_id, name)
);

CREATE TABLE raw_contents (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  digest TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  content BLOB NOT NULL,
  CONSTRAINT pk_raw_contents PRIMARY KEY (id),
  CONSTRAINT uq_raw_contents_tenant_id_digest UNIQUE (tenant_id, digest)
);

CREATE TABLE messages (
  id INTEGER NOT NULL,
  outbox_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  source TEXT NOT NULL,
  request_id TEXT NOT NULL,
  dedupe_key TEXT,
  body_digest TEXT,
  to_email TEXT NOT NULL,
  contact_key BIGINT,
  recipient_id TEXT,
  external_id TEXT,
  subject TEXT NOT NULL,
  template_key BIGINT,
  payload TEXT NOT NULL,
  retry_policy TEXT NOT NULL,
  on_doubt TEXT NOT NULL,
  is_bulk BOOLEAN NOT NULL,
  expires_at BIGINT,
  scheduled_at BIGINT,
  created_at BIGINT NOT NULL,
  list_key TEXT,
  campaign_key BIGINT,
  content_digest TEXT,
  CONSTRAINT pk_messages PRIMARY KEY (id AUTOINCREMENT),
  CONSTRAINT uq_messages_outbox_id UNIQUE (outbox_id)
);
CREATE INDEX ix_messages_content_digest ON messages (tenant_id, content_digest) WHERE content_digest IS NOT NULL;
CREATE INDEX ix_messages_tenant_id_id ON messages (tenant_id, id);
-- The time as the views below state it, so that they find the messages of a tenant and a time without a scan.
CREATE INDEX ix_messages_reported ON messages (tenant_id, (strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch')));
CREATE INDEX ix_messages_tenant_id_to_email ON messages (tenant_id, to_email, id);
CREATE UNIQUE INDEX uq_messages_campaign_key_to_email ON messages (campaign_key, to_email)
  WHERE campaign_key IS NOT NULL;
CREATE UNIQUE INDEX uq_messages_of_article_run ON messages (request_id, to_email) WHERE source = 'article';
CREATE UNIQUE INDEX uq_messages_tenant_id_dedupe_key ON messages (tenant_id, dedupe_key) WHERE dedupe_key IS NOT NULL;

CREATE TABLE deliveries (
  message_key INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  lane BIGINT NOT NULL,
  status TEXT NOT NULL,
  claimable_at BIGINT NOT NULL,
  next_attempt_at BIGINT,
  defer_reason TEXT,
  attempts INTEGER NOT NULL,
  excused_attempts INTEGER NOT NULL DEFAULT 0,
  claims SMALLINT NOT NULL,
  resends SMALLINT NOT NULL,
  deferrals INTEGER NOT NULL DEFAULT 0,
  deferred_since BIGINT,
  retry_until BIGINT,
  claim_token BIGINT,
  locked_by TEXT,
  locked_at BIGINT,
  attempted_at BIGINT,
  in_doubt_since BIGINT,
  provider TEXT,
  provider_message_id TEXT,
  error_code TEXT,
  error_category TEXT,
  error_reason TEXT,
  duration_ms INTEGER,
  sent_at BIGINT,
  failed_at BIGINT,
  bounced_at BIGINT,
  subject TEXT,
  settlement BIGINT,
  permits TEXT,
  CONSTRAINT pk_deliveries PRIMARY KEY (message_key)
);
CREATE INDEX ix_deliveries_bounced ON deliveries (tenant_id, message_key) WHERE bounced_at IS NOT NULL;
CREATE INDEX ix_deliveries_bounced_of_lane ON deliveries (lane) WHERE bounced_at IS NOT NULL;
CREATE INDEX ix_deliveries_delayed ON deliveries (tenant_id, deferred_since)
  WHERE deferred_since IS NOT NULL AND status = 'RETRY_SCHEDULED';
CREATE INDEX ix_deliveries_failed ON deliveries (tenant_id, failed_at) WHERE status = 'FAILED';
CREATE INDEX ix_deliveries_in_doubt ON deliveries (claimable_at) WHERE status = 'IN_DOUBT';
CREATE INDEX ix_deliveries_leased ON deliveries (claimable_at) WHERE locked_by IS NOT NULL;
CREATE INDEX ix_deliveries_provider_message_id ON deliveries (provider_message_id)
  WHERE provider NOT IN ('mailbox', 'smtp', 'smtpbz');
CREATE INDEX ix_deliveries_rare ON deliveries (tenant_id, status, message_key)
  WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED');
CREATE INDEX ix_deliveries_rare_of_lane ON deliveries (lane, status)
  WHERE status IN ('FAILED', 'IN_DOUBT', 'CLOSED_UNKNOWN', 'CANCELLED');
CREATE INDEX ix_deliveries_waiting ON deliveries (lane, claimable_at, message_key)
  WHERE locked_by IS NULL AND status IN ('PENDING', 'RETRY_SCHEDULED');

CREATE TABLE events (
  id INTEGER NOT NULL,
  message_key BIGINT NOT NULL,
  tenant_id BIGINT NOT NULL,
  type TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  metadata TEXT NOT NULL,
  CONSTRAINT pk_events PRIMARY KEY (id AUTOINCREMENT)
);
CREATE INDEX ix_events_message_key ON events (message_key);
CREATE INDEX ix_events_responses ON events (message_key)
  WHERE type = 'open' OR type = 'click' OR type = 'bounce' OR type = 'complaint' OR type = 'unsubscribe';

CREATE TABLE reports (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  key TEXT NOT NULL,
  message_key BIGINT,
  email TEXT,
  type TEXT NOT NULL,
  verdict TEXT NOT NULL,
  at BIGINT NOT NULL,
  received_at BIGINT NOT NULL,
  is_proof BOOLEAN NOT NULL,
  CONSTRAINT pk_reports PRIMARY KEY (id),
  CONSTRAINT uq_reports_tenant_id_key UNIQUE (tenant_id, key)
);
CREATE INDEX ix_reports_message_key ON reports (message_key);
CREATE INDEX ix_reports_received_at ON reports (received_at);
CREATE INDEX ix_reports_soft ON reports (tenant_id, email, at) WHERE verdict = 'soft_bounce';

CREATE TABLE message_dead_letters (
  message_key INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  code TEXT NOT NULL,
  reason TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_message_dead_letters PRIMARY KEY (message_key)
);
CREATE INDEX ix_message_dead_letters_tenant_id_created_at ON message_dead_letters (tenant_id, created_at);

CREATE TABLE accepted_counts (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  source TEXT NOT NULL,
  accepted BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_accepted_counts PRIMARY KEY (id)
);

CREATE TABLE lane_deferrals (
  lane BIGINT NOT NULL,
  defer_reason TEXT NOT NULL,
  deferred_until BIGINT NOT NULL,
  CONSTRAINT pk_lane_deferrals PRIMARY KEY (lane)
);

CREATE TABLE bulk_sends (
  tenant_id BIGINT NOT NULL,
  email TEXT NOT NULL,
  message_key BIGINT NOT NULL,
  sent_at BIGINT NOT NULL,
  CONSTRAINT pk_bulk_sends PRIMARY KEY (tenant_id, email, message_key)
);
CREATE INDEX ix_bulk_sends_sent_at ON bulk_sends (sent_at);

CREATE TABLE counters (
  name TEXT NOT NULL,
  used BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  CONSTRAINT pk_counters PRIMARY KEY (name)
);

CREATE TABLE workers (
  worker_id TEXT NOT NULL,
  provider TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  unavailable_until BIGINT,
  unavailable_reason TEXT,
  defer_reason TEXT,
  per_second DOUBLE DEFAULT 0 NOT NULL,
  learned_rate DOUBLE,
  clock_skew BIGINT,
  settings_version TEXT,
  CONSTRAINT pk_workers PRIMARY KEY (worker_id)
);

CREATE TABLE installation (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  CONSTRAINT pk_installation PRIMARY KEY (name)
);

CREATE TABLE stored_settings (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  updated_by TEXT NOT NULL,
  CONSTRAINT pk_stored_settings PRIMARY KEY (name)
);

CREATE TABLE provider_configurations (
  id INTEGER NOT NULL,
  name TEXT NOT NULL,
  kind TEXT NOT NULL,
  settings TEXT NOT NULL,
  account BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  updated_by TEXT NOT NULL,
  CONSTRAINT pk_provider_configurations PRIMARY KEY (id),
  CONSTRAINT uq_provider_configurations_name UNIQUE (name)
);

CREATE TABLE provider_routes (
  tenant_id BIGINT NOT NULL,
  source TEXT NOT NULL,
  provider TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  updated_by TEXT NOT NULL,
  CONSTRAINT pk_provider_routes PRIMARY KEY (tenant_id, source)
);

CREATE TABLE report_sources (
  id INTEGER NOT NULL,
  name TEXT NOT NULL,
  tenant_id BIGINT,
  provider TEXT,
  secret TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  created_by TEXT NOT NULL,
  last_used_at BIGINT,
  CONSTRAINT pk_report_sources PRIMARY KEY (id),
  CONSTRAINT uq_report_sources_name UNIQUE (name)
);

CREATE TABLE sender_domains (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  domain TEXT NOT NULL,
  sender TEXT NOT NULL,
  keys TEXT NOT NULL,
  verified_at BIGINT,
  checked_at BIGINT,
  results TEXT NOT NULL,
  return_path TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_sender_domains PRIMARY KEY (id),
  CONSTRAINT uq_sender_domains_tenant_id_domain UNIQUE (tenant_id, domain)
);

CREATE UNIQUE INDEX ix_sender_domains_verified ON sender_domains (domain) WHERE verified_at IS NOT NULL;

CREATE TABLE used_signatures (
  signature TEXT NOT NULL,
  body TEXT NOT NULL,
  ends_at BIGINT NOT NULL,
  CONSTRAINT pk_used_signatures PRIMARY KEY (signature)
);

CREATE INDEX ix_used_signatures_ends_at ON used_signatures (ends_at);

CREATE TABLE dmarc_reports (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  domain TEXT NOT NULL,
  policy_domain TEXT NOT NULL,
  reporter TEXT NOT NULL,
  report_id TEXT NOT NULL,
  begins_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL,
  policy TEXT NOT NULL,
  is_partial BOOLEAN NOT NULL,
  messages BIGINT NOT NULL,
  aligned BIGINT NOT NULL,
  skipped_rows INTEGER NOT NULL,
  sent BIGINT,
  not_compared TEXT,
  received_at BIGINT NOT NULL,
  CONSTRAINT pk_dmarc_reports PRIMARY KEY (id),
  CONSTRAINT uq_dmarc_reports_tenant_id_domain_reporter_report_id UNIQUE (tenant_id, domain, reporter, report_id)
);
CREATE INDEX ix_dmarc_reports_time ON dmarc_reports (tenant_id, domain, ends_at);

CREATE TABLE dmarc_sources (
  id INTEGER NOT NULL,
  report_key BIGINT NOT NULL,
  source_ip TEXT NOT NULL,
  header_from TEXT NOT NULL,
  disposition TEXT NOT NULL,
  dkim BOOLEAN NOT NULL,
  spf BOOLEAN NOT NULL,
  is_signed BOOLEAN,
  results TEXT NOT NULL,
  messages BIGINT NOT NULL,
  CONSTRAINT pk_dmarc_sources PRIMARY KEY (id)
);
CREATE INDEX ix_dmarc_sources_report_key ON dmarc_sources (report_key);

CREATE TABLE dmarc_refusals (
  id INTEGER NOT NULL,
  tenant_id BIGINT,
  domain TEXT NOT NULL,
  reporter TEXT NOT NULL,
  name TEXT NOT NULL,
  reason TEXT NOT NULL,
  received_at BIGINT NOT NULL,
  CONSTRAINT pk_dmarc_refusals PRIMARY KEY (id)
);
CREATE INDEX ix_dmarc_refusals_tenant_id ON dmarc_refusals (tenant_id, id);

CREATE TABLE campaigns (
  id INTEGER NOT NULL,
  campaign_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  definition TEXT NOT NULL,
  scheduled_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  published_at BIGINT,
  messages_after_key BIGINT DEFAULT 0 NOT NULL,
  resend_of BIGINT,
  archived_at BIGINT,
  deleted_at BIGINT,
  changed_by TEXT,
  repeat_of TEXT,
  CONSTRAINT pk_campaigns PRIMARY KEY (id),
  CONSTRAINT uq_campaigns_campaign_id UNIQUE (campaign_id)
);
CREATE INDEX ix_campaigns_tenant_id_id ON campaigns (tenant_id, id);
CREATE UNIQUE INDEX uq_campaigns_resend_of ON campaigns (resend_of)
  WHERE resend_of IS NOT NULL AND (status <> 'CANCELLED' OR started_at IS NOT NULL);

CREATE TABLE campaign_repeats (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  campaign_key BIGINT NOT NULL,
  schedule TEXT NOT NULL,
  feed TEXT,
  digest TEXT NOT NULL,
  next_at BIGINT NOT NULL,
  starting_key BIGINT,
  starting_digest TEXT,
  last_at BIGINT,
  last_campaign_key BIGINT,
  last_result TEXT,
  failed_at BIGINT,
  paused_at BIGINT,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_campaign_repeats PRIMARY KEY (id),
  CONSTRAINT uq_campaign_repeats_campaign_key UNIQUE (campaign_key)
);
CREATE INDEX ix_campaign_repeats_next_at ON campaign_repeats (next_at);

CREATE TABLE campaign_attachments (
  id INTEGER NOT NULL,
  attachment_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  campaign_key BIGINT NOT NULL,
  filename TEXT NOT NULL,
  content_type TEXT NOT NULL,
  content_id TEXT,
  size_bytes INTEGER NOT NULL,
  created_at BIGINT NOT NULL,
  content BLOB NOT NULL,
  CONSTRAINT pk_campaign_attachments PRIMARY KEY (id),
  CONSTRAINT uq_campaign_attachments_attachment_id UNIQUE (attachment_id)
);
CREATE INDEX ix_campaign_attachments_campaign_key_id ON campaign_attachments (campaign_key, id);

CREATE TABLE queue_entries (
  id INTEGER NOT NULL,
  campaign_key BIGINT NOT NULL,
  tenant_id BIGINT NOT NULL,
  lane BIGINT NOT NULL,
  position BIGINT,
  content TEXT NOT NULL,
  limits TEXT NOT NULL,
  planned INTEGER NOT NULL,
  processed INTEGER NOT NULL,
  recipients INTEGER NOT NULL,
  enqueued_to TEXT NOT NULL,
  enqueue_ended_at BIGINT,
  created_at BIGINT NOT NULL,
  completed_at BIGINT,
  status TEXT NOT NULL DEFAULT 'PENDING',
  defer_reason TEXT,
  deferred_until BIGINT,
  expected_at BIGINT,
  announced TEXT,
  guard TEXT,
  wave INTEGER,
  digests TEXT,
  CONSTRAINT pk_queue_entries PRIMARY KEY (id),
  CONSTRAINT uq_queue_entries_campaign_key UNIQUE (campaign_key)
);
CREATE INDEX ix_queue_entries_open ON queue_entries (tenant_id, id) WHERE completed_at IS NULL;

CREATE TABLE campaign_approvals (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  campaign_key BIGINT NOT NULL,
  status TEXT NOT NULL,
  digest TEXT NOT NULL,
  digests TEXT NOT NULL,
  recipients INTEGER NOT NULL,
  plan TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  requested_at BIGINT NOT NULL,
  decided_by TEXT,
  decided_at BIGINT,
  comment TEXT,
  voided_at BIGINT,
  void_reason TEXT,
  notified TEXT,
  CONSTRAINT pk_campaign_approvals PRIMARY KEY (id)
);
CREATE INDEX ix_campaign_approvals_campaign_key ON campaign_approvals (campaign_key, id);
CREATE INDEX ix_campaign_approvals_tenant_id_status ON campaign_approvals (tenant_id, status);

CREATE TABLE send_approvals (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  name TEXT NOT NULL,
  status TEXT NOT NULL,
  digest TEXT NOT NULL,
  recipients INTEGER NOT NULL,
  content TEXT NOT NULL,
  requested_by TEXT NOT NULL,
  requested_at BIGINT NOT NULL,
  decided_by TEXT,
  decided_at BIGINT,
  comment TEXT,
  notified TEXT,
  CONSTRAINT pk_send_approvals PRIMARY KEY (id)
);
CREATE INDEX ix_send_approvals_tenant_id_kind_subject ON send_approvals (tenant_id, kind, subject);
CREATE INDEX ix_send_approvals_tenant_id_status ON send_approvals (tenant_id, status);

CREATE TABLE unapproved_sends (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  people TEXT NOT NULL,
  recipients INTEGER NOT NULL,
  at BIGINT NOT NULL,
  CONSTRAINT pk_unapproved_sends PRIMARY KEY (id)
);
CREATE INDEX ix_unapproved_sends_tenant_id_at ON unapproved_sends (tenant_id, at);

CREATE TABLE campaign_incidents (
  campaign_key BIGINT NOT NULL,
  kind TEXT NOT NULL,
  message_key BIGINT NOT NULL,
  attempted_at BIGINT NOT NULL,
  CONSTRAINT pk_campaign_incidents PRIMARY KEY (campaign_key, kind, message_key)
);

CREATE TABLE audit_log (
  id INTEGER NOT NULL,
  tenant_id BIGINT,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_audit_log PRIMARY KEY (id)
);
CREATE INDEX ix_audit_log_subject ON audit_log (subject, tenant_id, id);
CREATE INDEX ix_audit_log_tenant_id_id ON audit_log (tenant_id, id);

CREATE TABLE quotas (
  provider TEXT NOT NULL,
  remaining BIGINT,
  limit_per_day BIGINT,
  left_today BIGINT,
  limit_per_hour BIGINT,
  left_this_hour BIGINT,
  left_in_plan BIGINT,
  rate_per_second BIGINT,
  detail TEXT NOT NULL,
  synced_at BIGINT NOT NULL,
  in_flight BIGINT NOT NULL,
  previous_sync BIGINT,
  counted_before BIGINT NOT NULL,
  failed_at BIGINT,
  failure TEXT,
  failed_syncs INTEGER DEFAULT 0 NOT NULL,
  CONSTRAINT pk_quotas PRIMARY KEY (provider)
);

CREATE TABLE users (
  id INTEGER NOT NULL,
  login TEXT NOT NULL,
  role TEXT NOT NULL,
  tenant_id BIGINT,
  password_hash TEXT,
  password_changed_at BIGINT NOT NULL,
  totp_secret TEXT,
  totp_enabled_at BIGINT,
  totp_step BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  seen_at BIGINT,
  disabled_at BIGINT,
  test_addresses TEXT,
  email TEXT,
  language TEXT,
  CONSTRAINT pk_users PRIMARY KEY (id),
  CONSTRAINT uq_users_login UNIQUE (login)
);

CREATE TABLE account_links (
  id INTEGER NOT NULL,
  digest TEXT NOT NULL,
  kind TEXT NOT NULL,
  email TEXT NOT NULL,
  user_key BIGINT,
  role TEXT,
  tenant_id BIGINT,
  is_emailed BOOLEAN DEFAULT true NOT NULL,
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL,
  CONSTRAINT pk_account_links PRIMARY KEY (id),
  CONSTRAINT uq_account_links_digest UNIQUE (digest)
);

CREATE INDEX ix_account_links_email ON account_links (email);

CREATE TABLE recovery_codes (
  user_key INTEGER NOT NULL,
  digest TEXT NOT NULL,
  CONSTRAINT pk_recovery_codes PRIMARY KEY (user_key, digest)
);

CREATE TABLE sessions (
  id INTEGER NOT NULL,
  digest TEXT NOT NULL,
  user_key BIGINT NOT NULL,
  tenant_id BIGINT NOT NULL,
  awaits_code BOOLEAN NOT NULL,
  proved_two_factors BOOLEAN DEFAULT false NOT NULL,
  created_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL,
  ends_at BIGINT NOT NULL,
  address TEXT NOT NULL,
  agent TEXT NOT NULL,
  CONSTRAINT pk_sessions PRIMARY KEY (id),
  CONSTRAINT uq_sessions_digest UNIQUE (digest)
);
CREATE INDEX ix_sessions_ends_at ON sessions (ends_at);
CREATE INDEX ix_sessions_user_key ON sessions (user_key);

CREATE TABLE identities (
  id INTEGER NOT NULL,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  user_key BIGINT NOT NULL,
  email TEXT,
  is_managed BOOLEAN NOT NULL,
  created_at BIGINT NOT NULL,
  seen_at BIGINT,
  CONSTRAINT pk_identities PRIMARY KEY (id),
  CONSTRAINT uq_identities_issuer_subject UNIQUE (issuer, subject)
);

CREATE INDEX ix_identities_user_key ON identities (user_key);

CREATE TABLE passkeys (
  id INTEGER NOT NULL,
  user_key BIGINT NOT NULL,
  credential_id TEXT NOT NULL,
  credential TEXT NOT NULL,
  name TEXT NOT NULL,
  sign_count BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  used_at BIGINT,
  CONSTRAINT pk_passkeys PRIMARY KEY (id),
  CONSTRAINT uq_passkeys_credential_id UNIQUE (credential_id)
);

CREATE INDEX ix_passkeys_user_key ON passkeys (user_key);

CREATE TABLE used_challenges (
  digest TEXT NOT NULL,
  ends_at BIGINT NOT NULL,
  CONSTRAINT pk_used_challenges PRIMARY KEY (digest)
);

CREATE TABLE failed_sign_ins (
  subject TEXT NOT NULL,
  failures INTEGER NOT NULL,
  last_failed_at BIGINT NOT NULL,
  blocked_until BIGINT NOT NULL,
  CONSTRAINT pk_failed_sign_ins PRIMARY KEY (subject)
);

CREATE TABLE known_networks (
  account TEXT NOT NULL,
  network TEXT NOT NULL,
  seen_at BIGINT NOT NULL,
  CONSTRAINT pk_known_networks PRIMARY KEY (account, network)
);

CREATE TABLE tallies (
  tenant_id BIGINT NOT NULL,
  minute BIGINT NOT NULL,
  type TEXT NOT NULL,
  events BIGINT NOT NULL,
  CONSTRAINT pk_tallies PRIMARY KEY (tenant_id, minute, type)
);
CREATE INDEX ix_tallies_minute ON tallies (minute);

CREATE TABLE webhook_endpoints (
  id INTEGER NOT NULL,
  webhook_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  url TEXT NOT NULL,
  description TEXT NOT NULL,
  types TEXT NOT NULL,
  secrets TEXT NOT NULL,
  is_active BOOLEAN NOT NULL,
  after_event BIGINT NOT NULL,
  paused_at BIGINT,
  pause_reason TEXT,
  failing_since BIGINT,
  failures INTEGER NOT NULL,
  deferred_until BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_webhook_endpoints PRIMARY KEY (id),
  CONSTRAINT uq_webhook_endpoints_webhook_id UNIQUE (webhook_id)
);
CREATE INDEX ix_webhook_endpoints_tenant_id ON webhook_endpoints (tenant_id, id);

CREATE TABLE webhook_deliveries (
  id INTEGER NOT NULL,
  delivery_id TEXT NOT NULL,
  endpoint_key BIGINT NOT NULL,
  tenant_id BIGINT NOT NULL,
  event_key BIGINT,
  event_at BIGINT NOT NULL,
  message_key BIGINT,
  type TEXT NOT NULL,
  status TEXT NOT NULL,
  due_at BIGINT NOT NULL,
  claim_token BIGINT,
  attempts INTEGER NOT NULL,
  log TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  ended_at BIGINT,
  metadata TEXT,
  CONSTRAINT pk_webhook_deliveries PRIMARY KEY (id),
  CONSTRAINT uq_webhook_deliveries_delivery_id UNIQUE (delivery_id),
  CONSTRAINT uq_webhook_deliveries_endpoint_key_event_key UNIQUE (endpoint_key, event_key)
);
CREATE INDEX ix_webhook_deliveries_due ON webhook_deliveries (endpoint_key, due_at) WHERE status = 'PENDING';
CREATE INDEX ix_webhook_deliveries_ended_at ON webhook_deliveries (ended_at);
CREATE INDEX ix_webhook_deliveries_of_endpoint ON webhook_deliveries (endpoint_key, id);

CREATE TABLE webhook_cursor (
  name TEXT NOT NULL,
  position BIGINT NOT NULL,
  seen BIGINT NOT NULL,
  writers TEXT NOT NULL,
  CONSTRAINT pk_webhook_cursor PRIMARY KEY (name)
);

CREATE TABLE slices (
  id INTEGER NOT NULL,
  slice_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  article_key TEXT NOT NULL,
  section_order INTEGER NOT NULL,
  sort_index INTEGER NOT NULL,
  scope_ocd_id TEXT NOT NULL,
  is_headline BOOLEAN NOT NULL,
  title TEXT,
  dek TEXT,
  body_md TEXT NOT NULL,
  link_url TEXT,
  tags TEXT NOT NULL,
  publish_status TEXT NOT NULL,
  publish_at BIGINT,
  expires_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_slices PRIMARY KEY (id),
  CONSTRAINT uq_slices_place UNIQUE (tenant_id, article_key, section_order, scope_ocd_id, sort_index),
  CONSTRAINT uq_slices_slice_id UNIQUE (slice_id)
);

CREATE TABLE campaign_runs (
  id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  campaign_tag TEXT NOT NULL,
  article_key TEXT NOT NULL,
  actor TEXT NOT NULL,
  send_batch_id TEXT NOT NULL,
  audience_filter TEXT NOT NULL,
  list_key TEXT NOT NULL,
  content TEXT NOT NULL,
  recipients INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  enqueued_to TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  enqueue_ended_at BIGINT,
  failure TEXT,
  sender_rules TEXT,
  hold_reason TEXT,
  messages_after_key BIGINT DEFAULT 0 NOT NULL,
  max_recipients INTEGER,
  CONSTRAINT pk_campaign_runs PRIMARY KEY (id),
  CONSTRAINT uq_campaign_runs_run_id UNIQUE (run_id),
  CONSTRAINT uq_campaign_runs_tenant_id_campaign_tag_send_batch_id UNIQUE (tenant_id, campaign_tag, send_batch_id)
);
CREATE INDEX ix_campaign_runs_open ON campaign_runs (id) WHERE enqueue_ended_at IS NULL;
CREATE INDEX ix_campaign_runs_tenant_id_id ON campaign_runs (tenant_id, id);

CREATE TABLE run_variants (
  run_key BIGINT NOT NULL,
  slices TEXT NOT NULL,
  template_key BIGINT NOT NULL,
  recipients INTEGER NOT NULL,
  CONSTRAINT pk_run_variants PRIMARY KEY (run_key, slices)
);

CREATE TABLE profile_reads (
  run_key BIGINT NOT NULL,
  source TEXT NOT NULL,
  read_to TEXT,
  ended_at BIGINT,
  rows_read INTEGER NOT NULL,
  matched INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  excluded INTEGER NOT NULL,
  suppressed INTEGER NOT NULL,
  refusals TEXT NOT NULL,
  problem TEXT,
  CONSTRAINT pk_profile_reads PRIMARY KEY (run_key)
);

CREATE TABLE profile_recipients (
  run_key BIGINT NOT NULL,
  email TEXT NOT NULL,
  name TEXT,
  attributes TEXT NOT NULL,
  is_excluded BOOLEAN NOT NULL,
  CONSTRAINT pk_profile_recipients PRIMARY KEY (run_key, email)
);

CREATE TABLE profile_status_updates (
  contact_key INTEGER NOT NULL,
  status TEXT NOT NULL,
  status_at BIGINT,
  reported_at BIGINT NOT NULL,
  CONSTRAINT pk_profile_status_updates PRIMARY KEY (contact_key)
);

CREATE TABLE profile_list_updates (
  contact_key INTEGER NOT NULL,
  list_key TEXT NOT NULL,
  unsubscribed_at BIGINT NOT NULL,
  was_removed BOOLEAN NOT NULL,
  CONSTRAINT pk_profile_list_updates PRIMARY KEY (contact_key, list_key)
);

CREATE TABLE mailouts (
  id INTEGER NOT NULL,
  mailout_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  page_id TEXT NOT NULL,
  sent_page TEXT,
  actor TEXT NOT NULL,
  fingerprint TEXT,
  is_test BOOLEAN,
  is_local BOOLEAN DEFAULT false NOT NULL,
  overrides_rules BOOLEAN DEFAULT false NOT NULL,
  subject TEXT,
  status TEXT NOT NULL,
  template_key BIGINT,
  campaign_key BIGINT,
  planned INTEGER,
  error_code TEXT,
  error_message TEXT,
  created_at BIGINT NOT NULL,
  finished_at BIGINT,
  figures TEXT DEFAULT '{}' NOT NULL,
  reported_at BIGINT,
  due_at BIGINT,
  failures INTEGER NOT NULL,
  leased_by BIGINT,
  leased_until BIGINT NOT NULL,
  delay_code TEXT,
  delay_reason TEXT,
  CONSTRAINT pk_mailouts PRIMARY KEY (id),
  CONSTRAINT uq_mailouts_mailout_id UNIQUE (mailout_id),
  CONSTRAINT uq_mailouts_sent_page UNIQUE (sent_page)
);
CREATE INDEX ix_mailouts_due_at ON mailouts (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX ix_mailouts_page_id ON mailouts (page_id);
CREATE INDEX ix_mailouts_tenant_id_id ON mailouts (tenant_id, id);

CREATE TABLE mailout_recipients (
  mailout_key INTEGER NOT NULL,
  email TEXT NOT NULL,
  from_name TEXT,
  CONSTRAINT pk_mailout_recipients PRIMARY KEY (mailout_key, email)
);

CREATE TABLE mailout_errors (
  id INTEGER NOT NULL,
  mailout_key BIGINT NOT NULL,
  key TEXT NOT NULL,
  stage TEXT NOT NULL,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  email TEXT,
  provider TEXT,
  retry_count INTEGER NOT NULL,
  at BIGINT NOT NULL,
  is_in_doubt BOOLEAN NOT NULL,
  written_at BIGINT,
  CONSTRAINT pk_mailout_errors PRIMARY KEY (id),
  CONSTRAINT uq_mailout_errors_mailout_key_key UNIQUE (mailout_key, key)
);
CREATE INDEX ix_mailout_errors_unwritten ON mailout_errors (mailout_key, id) WHERE written_at IS NULL;

CREATE TABLE mailout_logs (
  message_key INTEGER NOT NULL,
  mailout_key BIGINT NOT NULL,
  status TEXT NOT NULL,
  is_confirmed BOOLEAN NOT NULL,
  CONSTRAINT pk_mailout_logs PRIMARY KEY (message_key)
);
CREATE INDEX ix_mailout_logs_mailout_key ON mailout_logs (mailout_key);

CREATE TABLE supabase_status_updates (
  contact_key INTEGER NOT NULL,
  status TEXT NOT NULL,
  status_at BIGINT,
  reported_at BIGINT NOT NULL,
  CONSTRAINT pk_supabase_status_updates PRIMARY KEY (contact_key)
);

CREATE TABLE subscriber_reports (
  key TEXT NOT NULL,
  email TEXT NOT NULL,
  source TEXT NOT NULL,
  verdict TEXT NOT NULL,
  at BIGINT NOT NULL,
  bounce_type TEXT,
  bounce_subtype TEXT,
  CONSTRAINT pk_subscriber_reports PRIMARY KEY (key)
);

CREATE TABLE notification_links (
  id INTEGER NOT NULL,
  tenant_id BIGINT NOT NULL,
  queue TEXT NOT NULL,
  queue_schema TEXT,
  notification_id BIGINT NOT NULL,
  row_key TEXT NOT NULL,
  generation INTEGER NOT NULL,
  subscription_id BIGINT NOT NULL,
  outbox_id TEXT NOT NULL,
  state TEXT NOT NULL,
  locked_by TEXT NOT NULL,
  locked_at TEXT NOT NULL,
  attempts_before INTEGER NOT NULL,
  counted_before INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL,
  sent_event TEXT NOT NULL,
  completed_attempts INTEGER NOT NULL,
  result_at BIGINT,
  retry_after BIGINT,
  noted TEXT,
  created_at BIGINT NOT NULL,
  CONSTRAINT pk_notification_links PRIMARY KEY (id),
  CONSTRAINT uq_notification_links_outbox_id UNIQUE (outbox_id),
  CONSTRAINT uq_notification_links_queue_row_key_generation UNIQUE (queue, row_key, generation)
);
CREATE INDEX ix_notification_links_in_flight ON notification_links (queue, subscription_id) WHERE state = 'sending';
CREATE INDEX ix_notification_links_sending ON notification_links (queue, id) WHERE state = 'sending';

CREATE TABLE hourly_tallies (
  tenant_id BIGINT NOT NULL,
  hour BIGINT NOT NULL,
  type TEXT NOT NULL,
  events BIGINT NOT NULL,
  CONSTRAINT pk_hourly_tallies PRIMARY KEY (tenant_id, hour, type)
);

CREATE TABLE campaign_tallies (
  campaign_key BIGINT NOT NULL,
  bucket_ms INTEGER NOT NULL,
  begins_at BIGINT NOT NULL,
  type TEXT NOT NULL,
  events BIGINT NOT NULL,
  unique_messages BIGINT NOT NULL,
  CONSTRAINT pk_campaign_tallies PRIMARY KEY (campaign_key, bucket_ms, begins_at, type)
);

CREATE TABLE variant_tallies (
  campaign_key BIGINT NOT NULL,
  template_key BIGINT NOT NULL,
  sent BIGINT NOT NULL,
  opened BIGINT NOT NULL,
  clicked BIGINT NOT NULL,
  CONSTRAINT pk_variant_tallies PRIMARY KEY (campaign_key, template_key)
);

CREATE TABLE tracked_links (
  link_id TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  url TEXT NOT NULL,
  used_at BIGINT NOT NULL,
  CONSTRAINT pk_tracked_links PRIMARY KEY (link_id)
);
CREATE INDEX ix_tracked_links_used_at ON tracked_links (used_at);

CREATE TABLE link_tallies (
  campaign_key BIGINT NOT NULL,
  type TEXT NOT NULL,
  url TEXT NOT NULL,
  events BIGINT NOT NULL,
  unique_messages BIGINT NOT NULL,
  CONSTRAINT pk_link_tallies PRIMARY KEY (campaign_key, type, url)
);

CREATE TABLE retention_rules (
  tenant_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  days INTEGER NOT NULL,
  exports BOOLEAN NOT NULL,
  position BIGINT NOT NULL,
  finished_at BIGINT,
  deleted BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  CONSTRAINT pk_retention_rules PRIMARY KEY (tenant_id, kind)
);

CREATE TABLE retention_tombstones (
  tenant_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  day BIGINT NOT NULL,
  lane BIGINT NOT NULL,
  bucket TEXT NOT NULL,
  deleted BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  resends BIGINT NOT NULL,
  CONSTRAINT pk_retention_tombstones PRIMARY KEY (tenant_id, kind, day, lane, bucket)
);
CREATE INDEX ix_retention_tombstones_lane ON retention_tombstones (lane);

CREATE TABLE deleted_messages (
  outbox_id TEXT NOT NULL,
  to_email TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  is_copy INTEGER NOT NULL,
  provider TEXT,
  created_at BIGINT NOT NULL,
  deleted_at BIGINT NOT NULL,
  CONSTRAINT pk_deleted_messages PRIMARY KEY (outbox_id, to_email)
);
CREATE INDEX ix_deleted_messages_to_email ON deleted_messages (to_email);
CREATE INDEX ix_deleted_messages_deleted_at ON deleted_messages (deleted_at);

CREATE TABLE retention_exports (
  file TEXT NOT NULL,
  tenant_id BIGINT NOT NULL,
  kind TEXT NOT NULL,
  host TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  exported BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  replaced_at BIGINT,
  CONSTRAINT pk_retention_exports PRIMARY KEY (file)
);
CREATE INDEX ix_retention_exports_of_rule ON retention_exports (tenant_id, kind, created_at);

-- Reports about the messages of article runs, under the names that their readers expect.
CREATE VIEW delivery_history AS
SELECT m.outbox_id AS id, r.tenant_id, m.to_email AS email, r.campaign_tag, r.send_batch_id,
  -- Unique: of several messages with the same id of a provider, only the first shows it.
  CASE WHEN NOT EXISTS (
    SELECT 1 FROM deliveries AS earlier
    WHERE earlier.provider_message_id = d.provider_message_id AND earlier.message_key < d.message_key
      AND earlier.provider = d.provider AND earlier.provider NOT IN ('mailbox', 'smtp', 'smtpbz')
  ) THEN d.provider_message_id END AS provider_message_id,
  (strftime('%Y-%m-%dT%H:%M:%fZ', d.sent_at / 1000.0, 'unixepoch')) AS sent_at
FROM campaign_runs AS r
JOIN messages AS m ON m.request_id = r.run_id AND m.source = 'article'
JOIN deliveries AS d ON d.message_key = m.id
WHERE d.status = 'SENT';

CREATE VIEW delivery_events AS
SELECT e.id, r.tenant_id, m.to_email AS email,
  CASE e.type WHEN 'complaint' THEN 'spamreport' ELSE e.type END AS event_type,
  d.provider_message_id, (strftime('%Y-%m-%dT%H:%M:%fZ', e.created_at / 1000.0, 'unixepoch')) AS event_at, r.campaign_tag, r.send_batch_id
FROM campaign_runs AS r
JOIN messages AS m ON m.request_id = r.run_id AND m.source = 'article'
JOIN deliveries AS d ON d.message_key = m.id
JOIN events AS e ON e.message_key = m.id
WHERE e.type IN ('delivered', 'open', 'click', 'bounce', 'complaint', 'unsubscribe');

CREATE VIEW dead_letters AS
SELECT m.outbox_id AS id, 'send' AS topic, json_extract(m.payload, '$') AS payload,
  d.error_code || ': ' || COALESCE(d.error_reason, '') AS error, (strftime('%Y-%m-%dT%H:%M:%fZ', d.failed_at / 1000.0, 'unixepoch')) AS created_at,
  r.tenant_id, m.to_email AS email, r.campaign_tag, r.send_batch_id
FROM campaign_runs AS r
JOIN messages AS m ON m.request_id = r.run_id AND m.source = 'article'
JOIN deliveries AS d ON d.message_key = m.id
WHERE d.status = 'FAILED' AND d.error_code NOT IN ('RECIPIENT_SUPPRESSED', 'RECIPIENT_NOT_FOUND', 'FREQUENCY_CAP', 'RECIPIENT_SNOOZED');

-- Messages, their results and events, and their recipients, under the names that reporting tools of an email gateway
-- expect. Only the owner reads them on PostgreSQL: see `privileges.py`.
CREATE VIEW email_outbox AS
SELECT m.outbox_id AS "id", t.name AS "companyId", m.recipient_id AS "recipientId", m.external_id AS "externalId",
  m.to_email AS "to", COALESCE(d.subject, m.subject) AS "subject",
  COALESCE(json_extract(m.payload, '$.html'), (SELECT p.html FROM templates AS p WHERE p.id = m.template_key)) AS "html",
  d.status AS "status", d.attempts AS "attempts",
  d.error_code || COALESCE(': ' || d.error_reason, '') AS "lastError",
  m.request_id AS "requestId", (strftime('%Y-%m-%dT%H:%M:%fZ', m.created_at / 1000.0, 'unixepoch')) AS "createdAt",
  (strftime('%Y-%m-%dT%H:%M:%fZ', m.scheduled_at / 1000.0, 'unixepoch')) AS "scheduledAt",
  (strftime('%Y-%m-%dT%H:%M:%fZ', COALESCE(d.sent_at, d.failed_at) / 1000.0, 'unixepoch')) AS "processedAt"
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id;

CREATE VIEW email_logs AS
SELECT m.outbox_id AS "id", m.outbox_id AS "outboxId", t.name AS "companyId", m.recipient_id AS "recipientId",
  m.to_email AS "to", COALESCE(d.subject, m.subject) AS "subject", d.status AS "status", d.provider AS "provider",
  d.provider_message_id AS "providerMessageId",
  CASE WHEN d.provider = 'ses'
    OR EXISTS (SELECT 1 FROM provider_configurations AS c WHERE c.name = d.provider AND c.kind = 'ses')
    THEN d.provider_message_id END AS "sesMessageId",
  d.error_code AS "errorCode", d.error_reason AS "errorReason", d.attempts AS "attempts",
  d.duration_ms AS "durationMs", m.request_id AS "requestId", (strftime('%Y-%m-%dT%H:%M:%fZ', m.created_at / 1000.0, 'unixepoch')) AS "createdAt",
  (strftime('%Y-%m-%dT%H:%M:%fZ', d.sent_at / 1000.0, 'unixepoch')) AS "sentAt", (strftime('%Y-%m-%dT%H:%M:%fZ', d.failed_at / 1000.0, 'unixepoch')) AS "failedAt"
FROM messages AS m
JOIN deliveries AS d ON d.message_key = m.id
JOIN tenants AS t ON t.id = m.tenant_id;

CREATE VIEW email_events AS
SELECT e.id AS "id", m.outbox_id AS "emailLogId", e.type AS "type", json_extract(e.metadata, '$') AS "metadata",
  (strftime('%Y-%m-%dT%H:%M:%fZ', e.created_at / 1000.0, 'unixepoch')) AS "createdAt"
FROM messages AS m
JOIN events AS e ON e.message_key = m.id;

CREATE VIEW recipients AS
SELECT c.contact_id AS "id", t.name AS "companyId", c.email AS "email", c.name AS "name", c.status AS "status",
  (strftime('%Y-%m-%dT%H:%M:%fZ', c.created_at / 1000.0, 'unixepoch')) AS "createdAt", (strftime('%Y-%m-%dT%H:%M:%fZ', c.deleted_at / 1000.0, 'unixepoch')) AS "deletedAt"
FROM contacts AS c
JOIN tenants AS t ON t.id = c.tenant_id;

-- There is one tenant from the start, so that a single team needs no set-up.
INSERT INTO tenants (name, created_at) VALUES ('default', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));
