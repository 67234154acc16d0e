"""Events about messages: incoming provider reports and bounce emails, and outgoing webhooks."""
