"""Request and response models of the HTTP API, the CLI `--json` output and the dashboard."""
