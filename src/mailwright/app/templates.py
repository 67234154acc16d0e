"""Build the template store of an installation."""

from mailwright.app.images import make_images
from mailwright.content.template_store import TemplateStore
from mailwright.domain.clock import Clock
from mailwright.ops.settings import Settings
from mailwright.storage.database import Database


def make_templates(settings: Settings, database: Database, clock: Clock) -> TemplateStore:
    images = make_images(settings, database, clock)
    return TemplateStore(database, clock, images, settings.public_url, settings.sender_postal_address)
