"""Settings, logs, metrics and traces: what every part may use. Drawn beside the picture."""
