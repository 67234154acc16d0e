"""Move contacts from another product, including those who unsubscribed or bounced there."""
