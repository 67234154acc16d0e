"""Settings, logs, metrics and traces, for use in every layer."""
