"""Mail through Amazon SES: one signed request a mail, never repeated, and results by how far it got."""

from mailwright.providers.ses.provider import Ses
from mailwright.providers.ses.settings import SesSettings

__all__ = ["Ses", "SesSettings"]
