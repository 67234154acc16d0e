"""Request and response models of the HTTP API and the CLI's `--json` output, one module per noun."""
