"""Settings of one SES account. Its credentials are never part of the settings."""

import re
from urllib.parse import urlsplit

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.providers.smtp.settings import is_loopback

TIMEOUT_SECONDS = 30.0
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class SesSettings:
    region: str
    endpoint: str | None = None  # An endpoint for tests; None for the region's endpoint.
    configuration_set: str | None = None
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if not _REGION.fullmatch(self.region):
            raise ConfigurationInvalid(
                lazy_gettext("{region} is not an AWS region (example: eu-west-1)", region=repr(self.region))
            )
        if self.configuration_set is not None and not _NAME.fullmatch(self.configuration_set):
            raise ConfigurationInvalid(
                lazy_gettext("the name of an SES configuration set needs 1 to 64 letters, digits, _ and -")
            )
        parts = urlsplit(self.url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise ConfigurationInvalid(
                lazy_gettext("the URL of SES must begin with https://, because messages must be encrypted")
            )

    @property
    def url(self) -> str:
        suffix = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        return (self.endpoint or f"https://email.{self.region}.{suffix}").rstrip("/")
