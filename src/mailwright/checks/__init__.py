"""Self-checks of an installation: settings, providers, DNS records, links and mailout tables."""
