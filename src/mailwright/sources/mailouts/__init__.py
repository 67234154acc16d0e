"""Mailouts: what somebody wrote in Notion goes to subscribers, once each, and Notion is told how it went."""
