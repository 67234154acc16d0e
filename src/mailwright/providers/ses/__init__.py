"""Send through Amazon SES, with one signed request per message, which is never repeated."""

from mailwright.providers.ses.provider import Ses
from mailwright.providers.ses.settings import SesSettings

__all__ = ["Ses", "SesSettings"]
