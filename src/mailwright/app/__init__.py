"""Wiring: builds the parts once and hands them to each other. The only place that knows every class."""
