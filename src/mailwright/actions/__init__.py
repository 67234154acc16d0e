"""What people and programs can ask for, each declared once, in a module per noun.

An action states its input, result, permission, audit verb, HTTP route, command and output. Routes, commands (on the
installation or against a server), agent tools and reference pages are derived from it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mailwright.actions.declaration import Noun

# The modules of each command; the first has its noun. They are imported when the command runs, or when a server starts.
MODULES: Final = {
    "approval": "approvals",
    "archive": "archive",
    "article": "articles",
    "audit-log": "audit_log",
    "brand": "brands",
    "campaign": "campaigns approvals campaign_explanations campaign_guard_rails campaign_repeats campaign_reports",
    "contact": "contacts imports moves",
    "dead-letter": "dead_letters",
    "dmarc": "dmarc_reports",
    "domain": "domains",
    "event": "contact_events",
    "form": "forms",
    "image": "images",
    "key": "keys",
    "list": "lists",
    "mailout": "mailouts",
    "message": "messages",
    "notify": "notifications",
    "provider": "providers",
    "report-source": "report_sources",
    "retention": "retention",
    "segment": "segments",
    "sending": "sending",
    "sequence": "sequences",
    "setting": "settings",
    "shadow": "shadow",
    "suppression": "suppressions",
    "template": "templates",
    "tenant": "tenants",
    "user": "users",
    "webhook": "webhooks",
}


def load_noun(command: str) -> "Noun":
    """Import the actions of a command."""
    names = [f"mailwright.actions.{name}" for name in MODULES[command].split()]
    modules = [import_module(name) for name in names]
    noun: Noun = modules[0].noun
    noun.actions.sort(key=lambda each: names.index(each.run.__module__))  # Other code may have imported them before.
    return noun


def load_nouns() -> list["Noun"]:
    return [load_noun(command) for command in MODULES]
