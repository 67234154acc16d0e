"""Settings: environment first, then `mailwright.toml`, then a default. Every error at once, with the name to set."""

import os
import re
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from mailwright.domain.errors import ConfigurationInvalid

CONFIG_FILE = "mailwright.toml"

_HOURS = re.compile(r"^([01]\d|2[0-3]):[0-5]\d-(([01]\d|2[0-3]):[0-5]\d|24:00)$")

PositiveInt = Annotated[int, Field(gt=0)]
ProviderName = Literal["mailbox", "smtp", "ses", "sendgrid", "smtpbz"]


class Settings(BaseSettings):
    """Field names are ours; the alias is the name that people set."""

    model_config = SettingsConfigDict(extra="forbid", populate_by_name=True, frozen=True, env_ignore_empty=True)

    _served_at: str | None = PrivateAttr(default=None)

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
        str | None,
        Field(
            alias="MAILWRIGHT_BASE_URL",
            description="how readers reach it; links in mails begin with it, or else with where `serve` listens",
        ),
    ] = None
    admin_password: Annotated[
        SecretStr | None,
        Field(
            alias="ADMIN_PASSWORD",
            description="of the first administrator, `admin`; as a bearer it opens what scripts trigger",
        ),
    ] = None
    unsubscribe_secret: Annotated[
        SecretStr | None,
        Field(alias="UNSUBSCRIBE_SECRET", description="signs unsubscribe links; made and kept if not set"),
    ] = None
    unsubscribe_retired_secrets: Annotated[
        tuple[SecretStr, ...],
        NoDecode,
        Field(
            alias="UNSUBSCRIBE_RETIRED_SECRETS",
            description="earlier ones, with commas: links in mails that they signed keep working",
        ),
    ] = ()
    unsubscribe_base_url: Annotated[
        str | None,
        Field(alias="UNSUBSCRIBE_BASE_URL", description="the page of those links; MAILWRIGHT_BASE_URL/unsubscribe"),
    ] = None

    unsubscribe_confirm: Annotated[
        bool,
        Field(alias="UNSUBSCRIBE_CONFIRM", description="ask before leaving: for readers behind link scanners"),
    ] = False

    provider: Annotated[ProviderName, Field(alias="MAILWRIGHT_PROVIDER", description="who carries the mail")] = (
        "mailbox"
    )
    route: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_ROUTE",
            description="several providers instead of one: `ses, smtp` in that order, or `ses=3, smtp=1` by weight",
        ),
    ] = None
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
    aws_region: Annotated[
        str | None,
        Field(alias="AWS_REGION", description="where SES and SQS are; keys come from the AWS credential chain"),
    ] = None
    ses_configuration_set: Annotated[
        str | None, Field(alias="SES_CONFIGURATION_SET", description="the one that publishes events of our mails")
    ] = None
    ses_url: Annotated[
        str | None,
        Field(alias="MAILWRIGHT_SES_URL", description="another SES, for a rehearsal; the region's if not set"),
    ] = None
    sendgrid_api_key: Annotated[
        SecretStr | None, Field(alias="SENDGRID_API_KEY", description="a key that may send mail")
    ] = None
    sendgrid_url: Annotated[
        str, Field(alias="MAILWRIGHT_SENDGRID_URL", description="api.eu.sendgrid.com for the EU, or a rehearsal")
    ] = "https://api.sendgrid.com"
    smtpbz_api_key: Annotated[
        SecretStr | None, Field(alias="SMTPBZ_API_KEY", description="asks smtp.bz for the quota that is left")
    ] = None
    smtpbz_url: Annotated[
        str, Field(alias="MAILWRIGHT_SMTPBZ_URL", description="the API of smtp.bz, or of a rehearsal")
    ] = "https://api.smtp.bz/v1"
    smtpbz_smtp_url: Annotated[
        SecretStr | None,
        Field(
            alias="SMTPBZ_SMTP_URL",
            description="smtp://user:pw@connect.smtp.bz:587?tls=starttls with your own login; else MAILWRIGHT_SMTP_URL",
        ),
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

    postal_address: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_POSTAL_ADDRESS",
            max_length=500,
            description="where you can be reached by post, for {{ postal_address }} in templates",
        ),
    ] = None
    images: Annotated[
        Path, Field(alias="MAILWRIGHT_IMAGES", description="the folder of uploaded images, the same for all processes")
    ] = Path("var/images")

    imports: Annotated[
        Path, Field(alias="MAILWRIGHT_IMPORTS", description="the folder of uploaded files of contacts and reports")
    ] = Path("var/imports")
    import_limit_mb: Annotated[
        PositiveInt, Field(alias="MAILWRIGHT_IMPORT_LIMIT_MB", description="the largest file of contacts")
    ] = 1024

    rate_per_second: Annotated[
        PositiveInt | None, Field(alias="MAILWRIGHT_RATE_PER_SECOND", description="per tenant, in any second")
    ] = None
    interval_ms: Annotated[
        PositiveInt | None,
        Field(alias="MAILWRIGHT_INTERVAL_MS", description="per tenant: at least so long from one start to the next"),
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

    sliding_hour: Annotated[
        bool,
        Field(alias="MAILWRIGHT_SLIDING_HOUR", description="limits per hour hold for any 60 minutes, not clock hours"),
    ] = False
    warmup_since: Annotated[
        date | None,
        Field(alias="MAILWRIGHT_WARMUP_SINCE", description="the first day of new senders: their mail grows from then"),
    ] = None
    warmup_start: Annotated[
        PositiveInt, Field(alias="MAILWRIGHT_WARMUP_START", description="mails per tenant on the first day")
    ] = 50
    warmup_factor: Annotated[
        float, Field(alias="MAILWRIGHT_WARMUP_FACTOR", ge=1, le=100, description="so many times more on each next day")
    ] = 2.0
    quota_sync_seconds: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_QUOTA_SYNC_SECONDS", description="how often providers are asked what quota is left"),
    ] = 300

    domain_limits: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_DOMAIN_LIMITS",
            description="per recipient domain, over all workers: `gmail.com=20/s, yahoo.com=5/s 10c, *=100/s`",
        ),
    ] = None

    sns_topic_arns: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(alias="SNS_TOPIC_ARNS", description="topics whose events are ours, with commas; needed to subscribe"),
    ] = ()
    sns_certs: Annotated[
        Path | None,
        Field(
            alias="MAILWRIGHT_SNS_CERTS",
            description="a folder of certificates used instead of Amazon's: for rehearsals",
        ),
    ] = None
    sqs_queue_url: Annotated[
        str | None, Field(alias="MAILWRIGHT_SQS_QUEUE_URL", description="a queue to poll for SES events")
    ] = None
    sendgrid_webhook_public_key: Annotated[
        str | None,
        Field(alias="SENDGRID_WEBHOOK_PUBLIC_KEY", description="from SendGrid's signed event webhook settings"),
    ] = None
    bounce_mailbox: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_BOUNCE_MAILBOX",
            description="where bounces arrive: maildir:/path or imaps://user:pw@host/INBOX",
        ),
    ] = None
    soft_bounce_limit: Annotated[
        PositiveInt, Field(alias="MAILWRIGHT_SOFT_BOUNCE_LIMIT", description="so many soft bounces count as a hard one")
    ] = 3
    soft_bounce_days: Annotated[
        PositiveInt, Field(alias="MAILWRIGHT_SOFT_BOUNCE_DAYS", description="within so many days")
    ] = 30

    webhook_private: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_WEBHOOK_PRIVATE",
            description="outgoing webhooks may go to private addresses and over plain http",
        ),
    ] = False

    from_email: Annotated[
        str | None,
        Field(
            alias="FROM_EMAIL",
            validation_alias=AliasChoices("FROM_EMAIL", "SES_FROM_EMAIL"),
            description="From address of mailouts; the one of MAILWRIGHT_FROM if not set",
        ),
    ] = None
    from_name: Annotated[
        str | None,
        Field(alias="FROM_NAME", description="From name of mailouts to readers for whom Supabase has none"),
    ] = None
    reply_to_email: Annotated[str | None, Field(alias="REPLY_TO_EMAIL", description="where answers to mailouts go")] = (
        None
    )
    org_name: Annotated[str | None, Field(alias="ORG_NAME", description="who sends, in the footer of mailouts")] = None
    org_address: Annotated[
        str | None,
        Field(
            alias="ORG_ADDRESS",
            max_length=500,
            description="its postal address, in the same footer; MAILWRIGHT_POSTAL_ADDRESS if not set",
        ),
    ] = None
    test_emails: Annotated[
        str, Field(alias="TEST_EMAILS", description="who gets tests of mailouts, between commas, semicolons or spaces")
    ] = ""
    send_rate_per_sec: Annotated[
        float,
        Field(
            alias="SEND_RATE_PER_SEC",
            validation_alias=AliasChoices("SEND_RATE_PER_SEC", "RATE_LIMIT_PER_SEC"),
            gt=0,
            le=1000,
            description="mails of a mailout in a second, evenly spaced",
        ),
    ] = 5.0
    batch_size: Annotated[
        int, Field(alias="BATCH_SIZE", gt=0, le=1000, description="readers of a mailout who are queued at once")
    ] = 50
    notion_token: Annotated[
        SecretStr | None,
        Field(
            alias="NOTION_TOKEN",
            validation_alias=AliasChoices("NOTION_TOKEN", "NOTION_API_TOKEN"),
            description="the secret of the integration that mailouts are shared with",
        ),
    ] = None
    notion_db_mailouts: Annotated[
        str | None,
        Field(
            alias="NOTION_DB_MAILOUTS",
            validation_alias=AliasChoices("NOTION_DB_MAILOUTS", "NOTION_DB_MAILOUTS_ID"),
            description="the database of mailouts in Notion: its id or its address",
        ),
    ] = None
    notion_db_errors: Annotated[
        str | None,
        Field(
            alias="NOTION_DB_ERRORS",
            validation_alias=AliasChoices("NOTION_DB_ERRORS", "NOTION_DB_ERRORS_ID"),
            description="the database where their errors are written",
        ),
    ] = None
    notion_url: Annotated[str, Field(alias="MAILWRIGHT_NOTION_URL", description="another Notion, for a rehearsal")] = (
        "https://api.notion.com"
    )
    notion_version: Annotated[
        Literal["2026-03-11", "2025-09-03"],
        Field(alias="NOTION_VERSION", description="the version of Notion's API that is spoken"),
    ] = "2026-03-11"
    notion_mailout_properties: Annotated[
        dict[str, str],
        NoDecode,
        Field(
            alias="NOTION_MAILOUT_PROPERTIES",
            description="what columns of mailouts are called, where not as usual: `subject=Betreff, test=Probe`",
        ),
    ] = {}
    notion_error_properties: Annotated[
        dict[str, str],
        NoDecode,
        Field(alias="NOTION_ERROR_PROPERTIES", description="the same of errors: `name=Titel, error_code=Code`"),
    ] = {}
    notion_statuses: Annotated[
        dict[str, str],
        NoDecode,
        Field(
            alias="NOTION_STATUSES",
            description="what the states of mailouts are called: `ready=Ready, send=Send, failed=Failed`",
        ),
    ] = {}
    supabase_url: Annotated[
        str | None,
        Field(alias="SUPABASE_URL", description="whose subscribers get mailouts; contacts of ours if not set"),
    ] = None
    supabase_service_role_key: Annotated[
        SecretStr | None,
        Field(alias="SUPABASE_SERVICE_ROLE_KEY", description="a service_role or secret key of it"),
    ] = None
    mailout_tenant: Annotated[
        str, Field(alias="MAILWRIGHT_MAILOUT_TENANT", description="the tenant whose mail mailouts are")
    ] = "default"

    notify_database_url: Annotated[
        str | None,
        Field(alias="MAILWRIGHT_NOTIFY_DATABASE_URL", description="where the queue of notifications is, yours or ours"),
    ] = None
    notify_schema: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_NOTIFY_SCHEMA",
            pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$",
            description="the PostgreSQL schema of its tables; the connection's own if not set",
        ),
    ] = None
    notify_tenant: Annotated[
        str, Field(alias="MAILWRIGHT_NOTIFY_TENANT", description="the tenant whose mail notifications are")
    ] = "default"
    notify_kinds: Annotated[
        Path | None,
        Field(alias="MAILWRIGHT_NOTIFY_KINDS", description="a TOML file that declares kinds of events"),
    ] = None
    notify_base_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_NOTIFY_BASE_URL",
            description="where subscriptions are managed; MAILWRIGHT_BASE_URL if not set",
        ),
    ] = None
    notify_locale: Annotated[
        str, Field(alias="MAILWRIGHT_NOTIFY_LOCALE", description="of subscribers who name none")
    ] = "en"

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
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        BeforeValidator(lambda level: level.upper() if isinstance(level, str) else level),
        Field(alias="MAILWRIGHT_LOG_LEVEL", description="how much to log"),
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

    @field_validator("sns_topic_arns", "unsubscribe_retired_secrets", mode="before")
    @classmethod
    def _with_commas(cls, value: Any) -> Any:
        return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value

    @field_validator("notion_mailout_properties", "notion_error_properties", "notion_statuses", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        pairs = [each.partition("=") for each in value.split(",") if each.strip()]
        if any(not name.strip() or not called.strip() for name, _, called in pairs):
            raise ValueError("must look like `subject=Betreff, test=Probe`")
        return {name.strip(): called.strip() for name, _, called in pairs}

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

    @field_validator("unsubscribe_retired_secrets")
    @classmethod
    def _each_long_enough(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(each.get_secret_value()) < 16 for each in value):
            raise ValueError("each must have at least 16 characters")
        return value

    @property
    def import_bytes(self) -> int:
        return self.import_limit_mb * 1024**2

    @property
    def public_url(self) -> str:
        return (self.base_url or self._served_at or f"http://{self.host}:{self.port}").rstrip("/")

    @property
    def has_public_address(self) -> bool:
        """Whether a setting says where we are served; if not, whoever serves has told the database."""
        return not self.model_fields_set.isdisjoint({"base_url", "port"})

    def served_at(self, address: str) -> Self:
        """The same settings, with links that lead to where another process serves."""
        served = self.model_copy()
        served._served_at = address
        return served

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
