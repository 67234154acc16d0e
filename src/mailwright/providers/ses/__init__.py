"""Send through Amazon SES: one signed request per message, never repeated; the result depends on how far it got."""

from mailwright.providers.ses.provider import Ses
from mailwright.providers.ses.settings import SesSettings

__all__ = ["Ses", "SesSettings"]
