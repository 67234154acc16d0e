"""Find article results by batch."""

from mailwright.storage.revision import index

# Processes that know this and no later revision can run beside it.
OLDEST_COMPATIBLE = "0001"
STEPS = (
    index("CREATE INDEX ix_campaign_runs_campaign_tag ON campaign_runs (campaign_tag)"),
    index("CREATE INDEX ix_campaign_runs_send_batch_id ON campaign_runs (send_batch_id)"),
)
