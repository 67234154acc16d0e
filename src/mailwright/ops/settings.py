"""Settings: environment first, then `mailwright.toml`, then a default. Every error at once, with the name to set."""

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from mailwright.domain.errors import ConfigurationInvalid

CONFIG_FILE = "mailwright.toml"

_HOURS = re.compile(r"^([01]\d|2[0-3]):[0-5]\d-(([01]\d|2[0-3]):[0-5]\d|24:00)$")

PositiveInt = Annotated[int, Field(gt=0)]


class Settings(BaseSettings):
    """Field names are ours; the alias is the name that people set."""

    model_config = SettingsConfigDict(extra="forbid", populate_by_name=True, frozen=True, env_ignore_empty=True)

    database_url: Annotated[
        str, Field(alias="MAILWRIGHT_DATABASE_URL", description="sqlite:///file.db or postgresql://…")
    ] = "sqlite:///mailwright.db"
    redis_url: Annotated[
        str | None,
        Field(alias="MAILWRIGHT_REDIS_URL", description="redis://host:port/0: shared permits and wake-up hints"),
    ] = None

    host: Annotated[str, Field(alias="MAILWRIGHT_HOST", description="where the API listens")] = "127.0.0.1"
    port: Annotated[int, Field(alias="MAILWRIGHT_PORT", ge=0, le=65535, description="its port")] = 8025
    base_url: Annotated[
        str | None, Field(alias="MAILWRIGHT_BASE_URL", description="how readers reach it; links in mails begin with it")
    ] = None
    unsubscribe_secret: Annotated[
        SecretStr | None,
        Field(alias="UNSUBSCRIBE_SECRET", description="signs unsubscribe links; made and kept if not set"),
    ] = None
    unsubscribe_base_url: Annotated[
        str | None,
        Field(alias="UNSUBSCRIBE_BASE_URL", description="the page of those links; MAILWRIGHT_BASE_URL/unsubscribe"),
    ] = None

    provider: Annotated[
        Literal["mailbox", "smtp"], Field(alias="MAILWRIGHT_PROVIDER", description="who carries the mail")
    ] = "mailbox"
    mailbox: Annotated[
        Path, Field(alias="MAILWRIGHT_MAILBOX", description="the maildir that the mailbox provider writes to")
    ] = Path("var/mailbox")
    smtp_url: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_SMTP_URL",
            description="smtp://user:pw@host:port?tls=none|starttls|tls",
            validate_default=True,
        ),
    ] = None
    smtp_connections: Annotated[
        PositiveInt | None,
        Field(alias="MAILWRIGHT_SMTP_CONNECTIONS", description="most connections per worker; 10 if not set anywhere"),
    ] = None

    sender: Annotated[
        str, Field(alias="MAILWRIGHT_FROM", description="From of mails that name none: Name <address> or an address")
    ] = "Mailwright <mailwright@localhost>"
    bounce_address: Annotated[
        str | None,
        Field(alias="MAILWRIGHT_BOUNCE_ADDRESS", description="envelope sender; the From address where none is set"),
    ] = None
    dkim_domain: Annotated[
        str | None, Field(alias="MAILWRIGHT_DKIM_DOMAIN", description="the signing domain; the From domain if not set")
    ] = None
    dkim_selector: Annotated[
        str | None, Field(alias="MAILWRIGHT_DKIM_SELECTOR", description="the DNS name before ._domainkey")
    ] = None
    dkim_key_file: Annotated[
        Path | None,
        Field(
            alias="MAILWRIGHT_DKIM_KEY_FILE",
            description="PEM with an RSA or Ed25519 private key",
            validate_default=True,
        ),
    ] = None

    rate_per_second: Annotated[
        PositiveInt | None, Field(alias="MAILWRIGHT_RATE_PER_SECOND", description="per tenant; none if not set")
    ] = None
    rate_per_hour: Annotated[
        PositiveInt | None, Field(alias="MAILWRIGHT_RATE_PER_HOUR", description="per tenant and clock hour")
    ] = None
    daily_limit: Annotated[
        PositiveInt | None, Field(alias="MAILWRIGHT_DAILY_LIMIT", description="per tenant and day in its time zone")
    ] = None
    working_hours: Annotated[
        str, Field(alias="MAILWRIGHT_WORKING_HOURS", description="09:00-18:00; bulk mail waits outside them")
    ] = "00:00-24:00"
    timezone: Annotated[str, Field(alias="MAILWRIGHT_TIMEZONE", description="an IANA name, as Europe/Lisbon")] = "UTC"

    lock_ttl_seconds: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_LOCK_TTL_SECONDS", description="how long a silent worker keeps its messages"),
    ] = 120
    concurrency: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_CONCURRENCY", description="mails that a worker has with the provider at once"),
    ] = 64
    claim_batch: Annotated[
        PositiveInt, Field(alias="MAILWRIGHT_CLAIM_BATCH", description="messages that a worker claims at once")
    ] = 500
    shutdown_grace_seconds: Annotated[
        PositiveInt, Field(alias="SHUTDOWN_GRACE_SECONDS", description="what is in flight may finish for so long")
    ] = 30

    metrics_port: Annotated[
        int | None,
        Field(alias="MAILWRIGHT_METRICS_PORT", gt=0, le=65535, description="where a worker of its own shows metrics"),
    ] = None
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], Field(alias="MAILWRIGHT_LOG_LEVEL", description="how much to log")
    ] = "INFO"
    log_format: Annotated[
        Literal["json", "console"], Field(alias="MAILWRIGHT_LOG_FORMAT", description="JSON lines, or for people")
    ] = "json"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        named = os.environ.get("MAILWRIGHT_CONFIG")
        file = Path(named or CONFIG_FILE)
        if named and not file.is_file():
            raise FileNotFoundError(f"MAILWRIGHT_CONFIG names {named}, which is not there")
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    # These two look at fields that stand before them, and are asked even if nothing was set: so they are told together
    # with everything else that is wrong.

    @field_validator("smtp_url")
    @classmethod
    def _needed(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is None and info.data.get("provider") == "smtp":
            raise ValueError("is needed when MAILWRIGHT_PROVIDER is smtp, as in smtp://mail.example.com:587")
        return value

    @field_validator("dkim_key_file")
    @classmethod
    def _both_or_neither(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        if (value is None) != (info.data.get("dkim_selector") is None):
            raise ValueError("set it together with MAILWRIGHT_DKIM_SELECTOR, or neither")
        return value

    @field_validator("working_hours")
    @classmethod
    def _hours(cls, value: str) -> str:
        if not _HOURS.match(value) or value[:5] >= value[6:]:
            raise ValueError("must look like 09:00-18:00, the end after the beginning; 00:00-24:00 is always")
        return value

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError("is not an IANA time zone, as Europe/Lisbon or UTC") from error
        return value

    @field_validator("unsubscribe_secret")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 16:
            raise ValueError("must have at least 16 characters")
        return value

    @property
    def public_url(self) -> str:
        return (self.base_url or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def unsubscribe_url(self) -> str:
        return self.unsubscribe_base_url or f"{self.public_url}/unsubscribe"


def load(**overrides: Any) -> Settings:
    """Reads the settings, or tells everything that is wrong with them at once."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise ConfigurationInvalid(*(_problem(detail) for detail in error.errors())) from error
    except (OSError, ValueError) as error:
        raise ConfigurationInvalid(
            str(error) if isinstance(error, FileNotFoundError) else f"{CONFIG_FILE}: {error}"
        ) from error


def _problem(detail: Any) -> str:
    name = str(detail["loc"][0]) if detail["loc"] else CONFIG_FILE
    field = Settings.model_fields.get(name)
    shown = (field.alias or name) if field else name
    message = str(detail["msg"]).removeprefix("Value error, ")
    return f"{shown}: {message[:1].lower()}{message[1:]}"
