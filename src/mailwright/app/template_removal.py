"""Remove templates that neither a campaign nor a notification type uses."""

from functools import partial

from mailwright.content.template_removal import TemplateRemoval
from mailwright.domain.clock import SECOND, Clock
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.sources.notifications.event_kinds import load_event_kinds
from mailwright.storage.database import Database


def make_template_removal(settings: Settings, database: Database, clock: Clock) -> TemplateRemoval:
    return TemplateRemoval(database, clock, partial(_find_notification_types, settings, database))


async def _find_notification_types(
    settings: Settings, database: Database, tenant_id: int, template_id: str
) -> list[str]:
    if settings.notify_database_url is None and settings.notify_kinds is None:
        return []
    if (await tenants.find(database, settings.notify_tenant)).id != tenant_id:
        return []
    declared = load_event_kinds(settings.notify_kinds, settings.lock_ttl_seconds * SECOND)
    return [kind.name for kind in declared.by_name.values() if kind.template_id == template_id]
