"""Read the settings from the environment, then `mailwright.toml`, then the defaults, and report all errors at once.

Values in the database come between the file and the defaults: `Settings.with_stored`.
"""

import os
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.sources import read_env_file

from mailwright.domain.errors import ConfigurationInvalid, setting_problem
from mailwright.domain.shadow import SmtpMode
from mailwright.domain.tracking import TrackingMode
from mailwright.domain.translation import english_text, lazy_gettext, lazy_text, lower_first
from mailwright.domain.working_hours import parse_working_hours
from mailwright.ops import amazonsender
from mailwright.ops.provider_kind import split_commas
from mailwright.ops.provider_kinds import KIND_PROBLEMS, KINDS
from mailwright.ops.release_files import find_last_release_with
from mailwright.ops.secret_files import HAS_PASSWORD, secret_problems, secret_values
from mailwright.ops.source_kinds import SOURCE_KINDS

CONFIG_FILE = "mailwright.toml"
# Environment variables with the path of a settings file.
CONFIG_VARIABLE = "MAILWRIGHT_CONFIG"
ENV_FILE_VARIABLE = "MAILWRIGHT_ENV_FILE"

DRY_RUN_NOTICE = "this is a dry run: every message goes to the local mailbox, and nobody receives it"

PositiveInt = Annotated[int, Field(gt=0)]
# The spellings of true and false that pydantic accepts too.
_TRUE = ("true", "1", "yes", "on", "y", "t")
_FALSE = ("false", "0", "no", "off", "n", "f")
if TYPE_CHECKING:
    ProviderName = str

    class _ProviderFields:
        """The settings of all kinds of providers."""
else:
    # A plugin that cannot be used does not stop Mailwright: messages wait for it.
    ProviderName = Literal[(*KINDS, *KIND_PROBLEMS)]
    _kinds = (*reversed(KINDS.values()), *SOURCE_KINDS.values())
    _ProviderFields = type("_ProviderFields", tuple(kind.fields for kind in _kinds if kind.fields is not None), {})


def http_address(host: str, port: int) -> str:
    """Return an address that a browser on this machine can open, also if the server listens on all interfaces."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{name}:{port}"


class Settings(_ProviderFields, BaseSettings):
    """All settings. A field's alias is the name of its environment variable and of its key in `mailwright.toml`."""

    model_config = SettingsConfigDict(extra="forbid", populate_by_name=True, frozen=True, env_ignore_empty=True)

    _served_at: str | None = PrivateAttr(default=None)
    _base: "Settings | None" = PrivateAttr(default=None)

    database_url: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_DATABASE_URL",
            json_schema_extra=HAS_PASSWORD,
            description="Database: `sqlite:///file.db` or `postgresql://user:password@host/name`.",
        ),
    ] = "sqlite:///mailwright.db"
    database_direct_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_DATABASE_DIRECT_URL",
            json_schema_extra=HAS_PASSWORD,
            description="The same PostgreSQL database without its connection pooler, for wake-ups and restores.",
        ),
    ] = None
    database_read_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_DATABASE_READ_URL",
            json_schema_extra=HAS_PASSWORD,
            description="A replica of the PostgreSQL database, for reports, exports and lists.",
        ),
    ] = None
    database_connections: Annotated[
        int,
        Field(
            alias="MAILWRIGHT_DATABASE_CONNECTIONS",
            ge=4,
            le=200,
            description="Maximum number of connections to PostgreSQL of each process.",
        ),
    ] = 12
    state: Annotated[
        Path,
        Field(
            alias="MAILWRIGHT_STATE",
            description="Folder of the marker that detects a restored database. Never restore the two together.",
        ),
    ] = Path("var/state")
    redis_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_REDIS_URL",
            json_schema_extra=HAS_PASSWORD,
            description="Valkey or Redis server for shared rate limits and worker wake-ups, for example "
            "`redis://host:6379/0`; `rediss://` for TLS, `redis+sentinel://host:26379/NAME` for Sentinel.",
        ),
    ] = None

    host: Annotated[str, Field(alias="MAILWRIGHT_HOST", description="Address on which the server listens.")] = (
        "127.0.0.1"
    )
    port: Annotated[
        int, Field(alias="MAILWRIGHT_PORT", ge=0, le=65535, description="Port on which the server listens.")
    ] = 8025
    smtp_listen: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_SMTP_LISTEN",
            description="Address on which `serve` and `smtp` accept email over SMTP, for example `127.0.0.1:2525`. "
            "Off by default. An address other than loopback needs a certificate, and clients must use STARTTLS.",
        ),
    ] = None
    smtp_listen_tls: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_SMTP_LISTEN_TLS",
            description="Address for SMTP that is encrypted from the first byte, for example `0.0.0.0:465`.",
        ),
    ] = None
    smtp_mode: Annotated[
        SmtpMode,
        Field(
            alias="MAILWRIGHT_SMTP_MODE",
            description="`deliver` stores email that comes over SMTP and sends it. `shadow` passes it on unchanged to "
            "`MAILWRIGHT_SMTP_RELAY_URL` and only reports what Mailwright would have done.",
        ),
    ] = SmtpMode.DELIVER
    smtp_relay_url: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_SMTP_RELAY_URL",
            description="Mail server of shadow mode: `smtp://user:password@host:port?tls=none|starttls|tls`.",
            validate_default=True,
        ),
    ] = None
    smtp_certificate_file: Annotated[
        Path | None,
        Field(
            alias="MAILWRIGHT_SMTP_CERTIFICATE_FILE",
            description="PEM file with the certificate chain of the SMTP server.",
        ),
    ] = None
    smtp_key_file: Annotated[
        Path | None,
        Field(alias="MAILWRIGHT_SMTP_KEY_FILE", description="PEM file with the private key of this certificate."),
    ] = None
    smtp_listen_connections: Annotated[
        PositiveInt,
        Field(
            alias="MAILWRIGHT_SMTP_LISTEN_CONNECTIONS",
            description="Maximum number of SMTP clients per process. One remote address may use half of them.",
        ),
    ] = 500
    smtp_listen_rate: Annotated[
        PositiveInt | None,
        Field(
            alias="MAILWRIGHT_SMTP_LISTEN_RATE",
            description="Maximum number of messages that an API key may submit over SMTP per minute, in each process. "
            "More are refused for now (451).",
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_BASE_URL",
            description="Public URL of the server, for links in emails. Defaults to the address of `serve`.",
        ),
    ] = None
    admin_password: Annotated[
        SecretStr | None,
        Field(
            alias="ADMIN_PASSWORD",
            description="Password of the first administrator, `admin`. Scripts can send it as a bearer token.",
        ),
    ] = None
    secret_key: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_SECRET_KEY",
            description="Key that encrypts stored secrets, at least 32 characters. To rotate it, set `new,old`.",
        ),
    ] = None
    secret_key_file: Annotated[
        Path,
        Field(
            alias="MAILWRIGHT_SECRET_KEY_FILE",
            description="File with the key, used if `MAILWRIGHT_SECRET_KEY` is not set. Created on first use.",
        ),
    ] = Path("mailwright.key")
    oidc_issuer: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_OIDC_ISSUER",
            description="Identity provider (OpenID Connect) with which users sign in: its issuer URL, exactly as its "
            "discovery document states it, for example `https://login.example.com`.",
        ),
    ] = None
    oidc_client_id: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_OIDC_CLIENT_ID",
            description="Client ID of Mailwright at the identity provider. Its redirect URI is "
            "`MAILWRIGHT_BASE_URL/sign-in/oidc/callback`.",
        ),
    ] = None
    oidc_client_secret: Annotated[
        SecretStr | None,
        Field(alias="MAILWRIGHT_OIDC_CLIENT_SECRET", description="Secret of this client."),
    ] = None
    oidc_scopes: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_OIDC_SCOPES",
            description="Scopes that Mailwright requests, separated by spaces. `openid` is required.",
        ),
    ] = "openid email profile"
    oidc_label: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_OIDC_LABEL",
            min_length=1,
            max_length=40,
            description="Name of the identity provider on the button of the sign-in page: `Continue with …`.",
        ),
    ] = "single sign-on"
    oidc_role_claim: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_OIDC_ROLE_CLAIM",
            min_length=1,
            description="Claim with the groups or roles of a person. A dot reads a nested claim: `realm_access.roles`.",
        ),
    ] = "groups"
    oidc_roles: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_OIDC_ROLES",
            description="Role and tenant by group, the first match counts: `mail-admins=admin@*, shop=editor@acme`. "
            "`@*` means all tenants. Separate entries with `;` if groups contain commas.",
        ),
    ] = None
    oidc_email_domains: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(
            alias="MAILWRIGHT_OIDC_EMAIL_DOMAINS",
            description="Only people with a verified email address of these domains can sign in with the identity "
            "provider. Separated by commas.",
        ),
    ] = ()
    oidc_trust_email: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_OIDC_TRUST_EMAIL",
            description="Treat every email address of the identity provider as verified. Only for providers that do "
            "not send `email_verified` and whose users cannot choose their address.",
        ),
    ] = False
    oidc_new_user_tenant: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_OIDC_NEW_USER_TENANT",
            description="Tenant in which unknown people become viewers. Needs `MAILWRIGHT_OIDC_EMAIL_DOMAINS`. If not "
            "set, only people with an invitation or a mapped group get an account.",
        ),
    ] = None
    oidc_link_existing: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_OIDC_LINK_EXISTING",
            description="Connect an existing user whose user name is the verified email address. If not set, users "
            "connect the identity provider themselves on their account page.",
        ),
    ] = False
    oidc_password_sign_in: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_OIDC_PASSWORD_SIGN_IN",
            description="Users can still sign in with a password or a passkey. If false, only administrators can: they "
            "need it when the identity provider fails.",
        ),
    ] = True
    oidc_second_factor: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(
            alias="MAILWRIGHT_OIDC_SECOND_FACTOR",
            description="Values of the claims `amr` or `acr` that count as two-factor authentication, separated by "
            "commas, for example `mfa, hwk`. If not set, users also need the second factor of Mailwright.",
        ),
    ] = ()
    unsubscribe_secret: Annotated[
        SecretStr | None,
        Field(
            alias="UNSUBSCRIBE_SECRET",
            description="Key that signs unsubscribe links. Generated and stored in the database if not set.",
        ),
    ] = None
    unsubscribe_retired_secrets: Annotated[
        tuple[SecretStr, ...],
        NoDecode,
        Field(
            alias="UNSUBSCRIBE_RETIRED_SECRETS",
            description="Earlier unsubscribe keys, separated by commas. Links signed with them stay valid.",
        ),
    ] = ()
    unsubscribe_base_url: Annotated[
        str | None,
        Field(
            alias="UNSUBSCRIBE_BASE_URL",
            description="URL of the unsubscribe page. Defaults to `MAILWRIGHT_BASE_URL/unsubscribe`.",
        ),
    ] = None

    unsubscribe_confirm: Annotated[
        Literal["auto", "true", "false"],
        Field(
            alias="UNSUBSCRIBE_CONFIRM",
            description="Whether an unsubscribe link shows a button instead of unsubscribing at once: `true`, `false`, "
            "or `auto`: only if the visitor may be a link scanner.",
        ),
    ] = "auto"

    provider: Annotated[
        ProviderName, Field(alias="MAILWRIGHT_PROVIDER", description="Provider that delivers email.")
    ] = "mailbox"
    route: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_ROUTE",
            description="Several providers: `ses, smtp` uses them in order (failover), `ses=3, smtp=1` by weight.",
        ),
    ] = None
    dry_run: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_DRY_RUN",
            description="Send nothing. Every message goes to the local mailbox, and provider settings are ignored.",
        ),
    ] = False
    demo: Annotated[
        bool,
        Field(alias="MAILWRIGHT_DEMO", description="Say on every page of the dashboard that this is a demo."),
    ] = False
    mailbox: Annotated[
        Path, Field(alias="MAILWRIGHT_MAILBOX", description="Maildir folder of the `mailbox` provider.")
    ] = Path("var/mailbox")
    smtp_url: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_SMTP_URL",
            description="SMTP server: `smtp://user:password@host:port?tls=none|starttls|tls`.",
        ),
    ] = None
    smtp_connections: Annotated[
        PositiveInt | None,
        Field(
            alias="MAILWRIGHT_SMTP_CONNECTIONS",
            description="Maximum number of SMTP connections of `worker` or `serve`, shared by its processes. Each sends"
            " one message at a time, or two to a quick server. If not set, each process opens up to 20, and up to 20"
            " more for transactional messages while bulk messages use the first 20.",
        ),
    ] = None
    oauth_token_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_OAUTH_TOKEN_URL",
            description="Token endpoint for SMTP and IMAP with `auth=xoauth2`, for example "
            "`https://login.microsoftonline.com/TENANT/oauth2/v2.0/token`.",
        ),
    ] = None
    oauth_client_id: Annotated[
        str | None, Field(alias="MAILWRIGHT_OAUTH_CLIENT_ID", description="Client ID of the application there.")
    ] = None
    oauth_client_secret: Annotated[
        SecretStr | None, Field(alias="MAILWRIGHT_OAUTH_CLIENT_SECRET", description="Client secret of the application.")
    ] = None
    oauth_refresh_token: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_OAUTH_REFRESH_TOKEN",
            description="Refresh token of the mailbox's user. Without it, the application signs in as itself.",
        ),
    ] = None
    oauth_service_account: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_OAUTH_SERVICE_ACCOUNT",
            description="Key of a Google service account, the content of its JSON file, for Gmail with domain-wide "
            "delegation. It replaces the other OAuth settings.",
        ),
    ] = None
    oauth_scope: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_OAUTH_SCOPE",
            description="Scope of the access token, for example `https://outlook.office365.com/.default`.",
        ),
    ] = None

    sender: Annotated[
        str, Field(alias="MAILWRIGHT_FROM", description="Default From header: `Name <address>` or an address.")
    ] = "Mailwright <mailwright@mailwright.localhost>"
    bounce_address: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_BOUNCE_ADDRESS",
            description="Envelope sender, to which bounces are sent. Defaults to the From address.",
        ),
    ] = None
    bounce_tag: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_BOUNCE_TAG",
            description="Add the message id to the bounce address (`bounces+ID@example.com`), so that every bounce is "
            "attributed. Set it to false if the SMTP server forbids that.",
        ),
    ] = True
    sender_domains: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(
            alias="MAILWRIGHT_SENDER_DOMAINS",
            description="Further domains that you send from, separated by commas. Messages with a From address of "
            "another domain are accepted with a warning and are not signed with your DKIM key.",
        ),
    ] = ()
    disposable_domains: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(
            alias="MAILWRIGHT_DISPOSABLE_DOMAINS",
            description="Further domains that sign-up forms refuse, separated by commas, in addition to the known "
            "domains of disposable addresses.",
        ),
    ] = ()
    require_sender_domains: Annotated[
        bool | Literal["auto"],
        Field(
            alias="MAILWRIGHT_REQUIRE_SENDER_DOMAINS",
            description="`true`: every tenant may send only from its own verified sender domains. `auto`: so, if there "
            "are several tenants, but the tenant `default` may also use the domains in these settings. `false`: this "
            "applies only to tenants that have a sender domain.",
        ),
    ] = "auto"
    return_path_host: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_RETURN_PATH_HOST",
            pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$",
            description="Mail server that receives bounces for the return-path domains of sender domains, such as "
            "`mx.example.com`. It must deliver their email to the mailbox of `MAILWRIGHT_BOUNCE_ADDRESS`.",
        ),
    ] = None
    dns_servers: Annotated[
        tuple[str, ...],
        NoDecode,
        Field(
            alias="MAILWRIGHT_DNS_SERVERS",
            description="DNS servers for all checks of DNS records (sender domains, installation checks, bulk sender "
            "rules, addresses in sign-up forms), separated by commas, such as `9.9.9.9`. Defaults to those of the "
            "machine, which connections always use.",
        ),
    ] = ()
    dkim_domain: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_DKIM_DOMAIN",
            description="DKIM signing domain. Defaults to the domain of the From address.",
        ),
    ] = None
    dkim_selector: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_DKIM_SELECTOR",
            description="DKIM selector: the part of the DNS name before `._domainkey`.",
        ),
    ] = None
    dkim_key: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_DKIM_KEY",
            description="The private key for DKIM itself, as PEM text. The dashboard can create one.",
        ),
    ] = None
    dkim_key_file: Annotated[
        Path | None,
        Field(
            alias="MAILWRIGHT_DKIM_KEY_FILE",
            description="PEM file with an RSA or Ed25519 private key for DKIM.",
        ),
    ] = None

    postal_address: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_POSTAL_ADDRESS",
            max_length=500,
            description="Postal address of the sender, available in templates as `{{ postal_address }}`. Defaults to "
            "`ORG_ADDRESS`.",
        ),
    ] = None
    sender_rules_limit: Annotated[
        int,
        Field(
            alias="MAILWRIGHT_SENDER_RULES_LIMIT",
            ge=1,
            description="Bulk email to more recipients than this must meet the rules of the large mailbox providers: "
            "SPF, DKIM, DMARC, one-click unsubscribe and a postal address.",
        ),
    ] = 1000
    images: Annotated[
        Path,
        Field(
            alias="MAILWRIGHT_IMAGES",
            description="Folder of uploaded images. With PostgreSQL they are in the database.",
        ),
    ] = Path("var/images")
    images_s3_bucket: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_IMAGES_S3_BUCKET",
            description="Bucket for uploaded images, instead of the folder. Works with every S3-compatible storage.",
        ),
    ] = None
    images_s3_endpoint: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_IMAGES_S3_ENDPOINT",
            description="URL of the S3-compatible storage. Defaults to Amazon S3 in the region.",
        ),
    ] = None
    images_s3_region: Annotated[
        str, Field(alias="MAILWRIGHT_IMAGES_S3_REGION", description="Region of the bucket; `auto` for Cloudflare R2.")
    ] = "us-east-1"
    images_s3_access_key: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_IMAGES_S3_ACCESS_KEY",
            description="Access key ID for the bucket. Defaults to the AWS credentials of the environment.",
        ),
    ] = None
    images_s3_secret_key: Annotated[
        SecretStr | None,
        Field(alias="MAILWRIGHT_IMAGES_S3_SECRET_KEY", description="Secret access key for the bucket."),
    ] = None
    images_s3_public_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_IMAGES_S3_PUBLIC_URL",
            description="URL from which recipients load the files of the bucket. Without it, Mailwright serves them.",
        ),
    ] = None

    imports: Annotated[
        Path,
        Field(
            alias="MAILWRIGHT_IMPORTS",
            description="Folder of uploaded contact files and their import reports. With PostgreSQL they are in the "
            "database, and the folder has copies while they are read.",
        ),
    ] = Path("var/imports")
    import_limit_mb: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_IMPORT_LIMIT_MB", description="Maximum size of a contact file, in megabytes."),
    ] = 1024

    retention_export: Annotated[
        Path | None,
        Field(
            alias="MAILWRIGHT_RETENTION_EXPORT",
            description="Folder for rows that retention exports before it deletes them.",
        ),
    ] = None
    retention_export_format: Annotated[
        Literal["jsonl", "parquet"],
        Field(
            alias="MAILWRIGHT_RETENTION_EXPORT_FORMAT",
            description="Format of exported rows: compressed JSON lines, or Parquet (needs `mailwright[parquet]`).",
        ),
    ] = "jsonl"

    tracking: Annotated[
        TrackingMode,
        Field(
            alias="MAILWRIGHT_TRACKING",
            description="The tracking of opens and clicks that is allowed at most: `off`, `anonymous` (totals of a "
            "campaign) or `individual` (recipients who consented). Tenants, lists and campaigns can only reduce it.",
        ),
    ] = TrackingMode.OFF
    tracking_invisible_link: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_TRACKING_INVISIBLE_LINK",
            description="Whether emails with individual tracking contain a link that people do not see. A program that "
            "follows it is a link scanner, and its clicks do not count as a person's.",
        ),
    ] = True
    tracking_spool: Annotated[
        Path,
        Field(
            alias="MAILWRIGHT_TRACKING_SPOOL",
            description="Folder where opens and clicks are kept until they are stored in the database.",
        ),
    ] = Path("var/tracking")

    rate_per_second: Annotated[
        PositiveInt | None,
        Field(alias="MAILWRIGHT_RATE_PER_SECOND", description="Maximum number of messages per tenant in any second."),
    ] = None
    interval_ms: Annotated[
        PositiveInt | None,
        Field(
            alias="MAILWRIGHT_INTERVAL_MS", description="Minimum time between two sends of a tenant, in milliseconds."
        ),
    ] = None
    rate_per_hour: Annotated[
        PositiveInt | None,
        Field(alias="MAILWRIGHT_RATE_PER_HOUR", description="Maximum number of messages per tenant and clock hour."),
    ] = None
    daily_limit: Annotated[
        PositiveInt | None,
        Field(
            alias="MAILWRIGHT_DAILY_LIMIT",
            description="Maximum number of messages per tenant and day, in the tenant's time zone.",
        ),
    ] = None
    working_hours: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_WORKING_HOURS",
            description="Hours in which bulk email is sent, for example `09:00-18:00`, `22:00-06:00` or "
            "`Mon-Fri 09:00-18:00, Sat 10:00-14:00`.",
        ),
    ] = "00:00-24:00"
    timezone: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_TIMEZONE", description="Default time zone as an IANA name, for example `Europe/Lisbon`."
        ),
    ] = "UTC"
    language: Annotated[
        Literal["en", "ru", "pt"],
        Field(
            alias="MAILWRIGHT_LANGUAGE",
            description="Language of emails about accounts and approvals, and of pages, if neither the reader nor the "
            "browser asks for one of these.",
        ),
    ] = "en"

    reserve_percent: Annotated[
        int,
        Field(
            alias="MAILWRIGHT_RESERVE_PERCENT",
            ge=0,
            le=90,
            description="Part of every limit that bulk email leaves for transactional email, in percent.",
        ),
    ] = 10
    sliding_hour: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_SLIDING_HOUR", description="Apply hourly limits to any 60 minutes instead of clock hours."
        ),
    ] = False
    warmup_since: Annotated[
        date | None,
        Field(
            alias="MAILWRIGHT_WARMUP_SINCE",
            description="First day of the warm-up, for example `2027-01-15`. The daily limit grows from then on.",
        ),
    ] = None
    warmup_start: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_WARMUP_START", description="Daily limit per tenant on the first day of the warm-up."),
    ] = 50
    warmup_factor: Annotated[
        float,
        Field(
            alias="MAILWRIGHT_WARMUP_FACTOR",
            ge=1,
            le=100,
            description="Factor by which the warm-up limit grows each day.",
        ),
    ] = 2.0
    quota_sync_seconds: Annotated[
        PositiveInt,
        Field(
            alias="MAILWRIGHT_QUOTA_SYNC_SECONDS",
            description="Seconds between two syncs of the providers' remaining quota.",
        ),
    ] = 300

    domain_limits: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_DOMAIN_LIMITS",
            description="Limits per recipient domain for all workers: `gmail.com=20/s, yahoo.com=5/s 10c, *=100/s`.",
        ),
    ] = None

    lifetimes: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_LIFETIMES",
            description="How long deferred messages are retried, by kind or source: `transactional=24h, bulk=72h`.",
        ),
    ] = None

    log_sent: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_LOG_SENT",
            description="Write a log line for every sent message. Other results are always logged.",
        ),
    ] = True
    max_attempts: Annotated[
        PositiveInt | None,
        Field(
            alias="MAILWRIGHT_MAX_ATTEMPTS",
            le=1_000,
            description="Attempts after which a message fails whatever its errors. Unset: deferred messages are "
            "retried until their lifetime ends, and other errors fail after 5 attempts.",
        ),
    ] = None

    frequency_cap: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_FREQUENCY_CAP",
            description="Bulk emails that one contact receives at most, for example `3 per 7 days`.",
        ),
    ] = None
    guard_complaint_warn: Annotated[
        float,
        Field(
            alias="MAILWRIGHT_GUARD_COMPLAINT_WARN",
            ge=0,
            le=100,
            description="Share of complaints, in percent, at which the guard rails of a campaign warn; 0 is off.",
        ),
    ] = 0.1
    guard_complaint_stop: Annotated[
        float,
        Field(
            alias="MAILWRIGHT_GUARD_COMPLAINT_STOP",
            ge=0,
            le=100,
            description="Share of complaints, in percent, at which a campaign is stopped; 0 is off.",
        ),
    ] = 0.3
    guard_bounce_warn: Annotated[
        float,
        Field(
            alias="MAILWRIGHT_GUARD_BOUNCE_WARN",
            ge=0,
            le=100,
            description="Share of hard bounces, in percent, at which the guard rails of a campaign warn; 0 is off.",
        ),
    ] = 2.0
    guard_bounce_stop: Annotated[
        float,
        Field(
            alias="MAILWRIGHT_GUARD_BOUNCE_STOP",
            ge=0,
            le=100,
            description="Share of hard bounces, in percent, at which a campaign is stopped; 0 is off.",
        ),
    ] = 5.0
    guard_min_messages: Annotated[
        PositiveInt,
        Field(
            alias="MAILWRIGHT_GUARD_MIN_MESSAGES",
            description="Number of sent messages from which the guard rails judge a campaign.",
        ),
    ] = 100
    guard_at_warning: Annotated[
        Literal["warn", "slow_down"],
        Field(
            alias="MAILWRIGHT_GUARD_AT_WARNING",
            description="What happens when a campaign passes a warning threshold: `warn` or `slow_down`.",
        ),
    ] = "warn"
    guard_slow_per_hour: Annotated[
        PositiveInt,
        Field(
            alias="MAILWRIGHT_GUARD_SLOW_PER_HOUR",
            description="Messages per hour of a campaign that its guard rails slow down.",
        ),
    ] = 1_000

    bounce_mailbox: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_BOUNCE_MAILBOX",
            description="Mailbox to poll for bounces and replies: `maildir:/path` or `imaps://user:password@host/INBOX`.",
        ),
    ] = None
    reply_address: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_REPLY_ADDRESS",
            description="Reply-To of messages without their own, an address of the bounce mailbox. It contains the "
            "message id (`replies+ID@example.com`) unless `MAILWRIGHT_BOUNCE_TAG` is false.",
        ),
    ] = None
    reply_forward_to: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_REPLY_FORWARD_TO",
            description="Address that replies are forwarded to, for tenants without their own. By default, replies are "
            "only recorded.",
        ),
    ] = None
    reply_forward_unmatched: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_REPLY_FORWARD_UNMATCHED",
            description="Also forward email that answers none of our messages to `MAILWRIGHT_REPLY_FORWARD_TO`. "
            "Otherwise it stays in the bounce mailbox, flagged.",
        ),
    ] = False
    soft_bounce_limit: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_SOFT_BOUNCE_LIMIT", description="Number of soft bounces that count as a hard bounce."),
    ] = 3
    soft_bounce_days: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_SOFT_BOUNCE_DAYS", description="Number of days within which soft bounces are counted."),
    ] = 30

    webhook_private: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_WEBHOOK_PRIVATE",
            description="Allow outbound webhooks to private addresses and over plain HTTP.",
        ),
    ] = False

    from_email: Annotated[
        str | None,
        Field(
            alias="FROM_EMAIL",
            description="From address of mailouts. Defaults to the address of `MAILWRIGHT_FROM`.",
        ),
    ] = None
    from_name: Annotated[
        str | None,
        Field(alias="FROM_NAME", description="Default From name of mailouts, if Supabase has none for a recipient."),
    ] = None
    reply_to_email: Annotated[
        str | None, Field(alias="REPLY_TO_EMAIL", description="Reply-To address of mailouts.")
    ] = None
    org_name: Annotated[
        str | None, Field(alias="ORG_NAME", description="Name of the sender in the footer of mailouts.")
    ] = None
    org_address: Annotated[
        str | None,
        Field(
            alias="ORG_ADDRESS",
            max_length=500,
            description="Postal address in the footer of mailouts. Defaults to `MAILWRIGHT_POSTAL_ADDRESS`.",
        ),
    ] = None
    footer_html: Annotated[
        str | None,
        Field(
            alias="FOOTER_HTML",
            max_length=20_000,
            description="HTML before the address in the footer of mailouts.",
        ),
    ] = None
    footer_text: Annotated[
        str | None,
        Field(
            alias="FOOTER_TEXT",
            max_length=20_000,
            description="Text before the address in the footer of mailouts.",
        ),
    ] = None
    test_emails: Annotated[
        str,
        Field(
            alias="TEST_EMAILS", description="Recipients of test mailouts, separated by commas, semicolons or spaces."
        ),
    ] = ""
    send_rate_per_sec: Annotated[
        float,
        Field(
            alias="SEND_RATE_PER_SEC",
            gt=0,
            le=1000,
            description="Messages of all mailouts together per second, evenly spaced.",
        ),
    ] = 5.0
    mailout_one_at_a_time: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_MAILOUT_ONE_AT_A_TIME",
            description="Whether each message of any mailout waits for the response to the previous one. With `false`, "
            "slow responses do not reduce the rate below `SEND_RATE_PER_SEC`.",
        ),
    ] = True
    mailout_message_links: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_MAILOUT_MESSAGE_LINKS",
            description="Whether the unsubscribe links of mailouts contain the message id, so that an unsubscribe "
            "counts for the mailout that caused it.",
        ),
    ] = True
    batch_size: Annotated[
        int,
        Field(alias="BATCH_SIZE", gt=0, le=1000, description="Number of mailout recipients that are enqueued at once."),
    ] = 50
    notion_token: Annotated[
        SecretStr | None,
        Field(
            alias="NOTION_TOKEN",
            description="Secret of the Notion integration that has access to the mailouts.",
        ),
    ] = None
    notion_db_mailouts: Annotated[
        str | None,
        Field(
            alias="NOTION_DB_MAILOUTS",
            description="Notion database of the mailouts: its ID or URL.",
        ),
    ] = None
    notion_db_errors: Annotated[
        str | None,
        Field(
            alias="NOTION_DB_ERRORS",
            description="Notion database for the errors of mailouts: its ID or URL.",
        ),
    ] = None
    notion_url: Annotated[
        str, Field(alias="MAILWRIGHT_NOTION_URL", description="Notion API endpoint, or a test server.")
    ] = "https://api.notion.com"
    notion_version: Annotated[
        Literal["2026-03-11", "2025-09-03"],
        Field(alias="NOTION_VERSION", description="Version of the Notion API."),
    ] = "2026-03-11"
    notion_mailout_properties: Annotated[
        dict[str, str],
        NoDecode,
        Field(
            alias="NOTION_MAILOUT_PROPERTIES",
            description="Renamed columns of the mailouts database: `subject=Betreff, test=Probe`.",
        ),
    ] = {}
    notion_error_properties: Annotated[
        dict[str, str],
        NoDecode,
        Field(
            alias="NOTION_ERROR_PROPERTIES",
            description="Renamed columns of the errors database: `name=Titel, error_code=Code`.",
        ),
    ] = {}
    notion_statuses: Annotated[
        dict[str, str],
        NoDecode,
        Field(
            alias="NOTION_STATUSES",
            description="Renamed statuses of mailouts: `ready=Ready, send=Send, failed=Failed`. Optional ones: `test`, "
            "`reset`, `in_progress`, `not_started`.",
        ),
    ] = {}
    mailout_watch_seconds: Annotated[
        int,
        Field(
            alias="MAILWRIGHT_MAILOUT_WATCH_SECONDS",
            ge=0,
            le=86_400,
            description="Interval in seconds at which `serve` and `worker` look for mailouts to send. 0 turns it off.",
        ),
    ] = 0
    mailout_token: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_MAILOUT_TOKEN",
            description="Secret for the header `x-auth-token` of `/send-mailout`. It gives no other access.",
        ),
    ] = None
    supabase_url: Annotated[
        str | None,
        Field(
            alias="SUPABASE_URL",
            description="Supabase project whose subscribers receive mailouts. Defaults to Mailwright's own contacts.",
        ),
    ] = None
    supabase_service_role_key: Annotated[
        SecretStr | None,
        Field(alias="SUPABASE_SERVICE_ROLE_KEY", description="`service_role` or secret key of the Supabase project."),
    ] = None
    supabase_project_ref: Annotated[
        str | None,
        Field(
            alias="SUPABASE_PROJECT_REF",
            description="Id of the Supabase project. Mailwright does not start if `SUPABASE_URL` has another one.",
        ),
    ] = None
    mailbox_mailouts: Annotated[
        bool,
        Field(
            alias="MAILWRIGHT_MAILBOX_MAILOUTS",
            description="Allow mailouts that are not tests to go to the local mailbox, where nobody receives them.",
        ),
    ] = False
    mailout_tenant: Annotated[
        str, Field(alias="MAILWRIGHT_MAILOUT_TENANT", description="Tenant that sends mailouts.")
    ] = "default"

    mailout_list: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_MAILOUT_LIST",
            description="List whose subscribers receive mailouts without Supabase. Defaults to everyone with a "
            "subscription or another legal basis.",
        ),
    ] = None

    profiles_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_PROFILES_URL",
            json_schema_extra=HAS_PASSWORD,
            description="Recipients of articles in a table of another program: the address of a Supabase project, or a "
            "URL that begins with postgresql://. Defaults to Mailwright's own contacts.",
        ),
    ] = None
    profiles_key: Annotated[
        SecretStr | None,
        Field(
            alias="MAILWRIGHT_PROFILES_KEY",
            description="`service_role` or secret key, if `MAILWRIGHT_PROFILES_URL` is a Supabase project.",
        ),
    ] = None
    profiles_table: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_PROFILES_TABLE",
            description="Table with the recipients of articles, optionally with its schema: `public.profiles`.",
        ),
    ] = "profiles"
    profiles_columns: Annotated[
        dict[str, str],
        NoDecode,
        Field(
            alias="MAILWRIGHT_PROFILES_COLUMNS",
            description="Names of its columns, if they are not `email`, `ocd_ids`, `state`, `lists` and `mail_status`: "
            "`email=address, name=full_name, status=-`.",
        ),
    ] = {}
    profiles_tenant: Annotated[
        str, Field(alias="MAILWRIGHT_PROFILES_TENANT", description="Tenant whose articles go to this table.")
    ] = "default"

    outbox_database_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_OUTBOX_DATABASE_URL",
            json_schema_extra=HAS_PASSWORD,
            description="Database of an application whose table `mailwright_outbox` is relayed.",
        ),
    ] = None
    sources: Annotated[
        list[str],
        NoDecode,
        BeforeValidator(split_commas),
        Field(
            alias="MAILWRIGHT_SOURCES",
            description="Sources of plugins that are switched on, separated by commas.",
        ),
    ] = []
    sources_tenant: Annotated[
        str, Field(alias="MAILWRIGHT_SOURCES_TENANT", description="Tenant that sends the email of these sources.")
    ] = "default"
    outbox_tenant: Annotated[
        str, Field(alias="MAILWRIGHT_OUTBOX_TENANT", description="Tenant that sends the email of this table.")
    ] = "default"

    notify_database_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_NOTIFY_DATABASE_URL",
            json_schema_extra=HAS_PASSWORD,
            description="Database that holds the notification queue.",
        ),
    ] = None
    notify_schema: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_NOTIFY_SCHEMA",
            pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$",
            description="PostgreSQL schema of the queue's tables. Defaults to the schema of the connection.",
        ),
    ] = None
    notify_tenant: Annotated[
        str, Field(alias="MAILWRIGHT_NOTIFY_TENANT", description="Tenant that sends notifications.")
    ] = "default"
    notify_kinds: Annotated[
        Path | None,
        Field(alias="MAILWRIGHT_NOTIFY_KINDS", description="TOML file that declares additional kinds of events."),
    ] = None
    notify_base_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_NOTIFY_BASE_URL",
            description="URL at which subscriptions are managed. Defaults to `MAILWRIGHT_BASE_URL`.",
        ),
    ] = None
    notify_locale: Annotated[
        str, Field(alias="MAILWRIGHT_NOTIFY_LOCALE", description="Locale of subscribers who have none.")
    ] = "en"

    notify_other_channels: Annotated[
        Literal["skip", "leave"],
        Field(
            alias="MAILWRIGHT_NOTIFY_OTHER_CHANNELS",
            description="What happens to rows for channels other than email: `skip` marks them as skipped, `leave` "
            "leaves them pending for another program.",
        ),
    ] = "skip"

    lock_ttl_seconds: Annotated[
        PositiveInt,
        Field(
            alias="MAILWRIGHT_LOCK_TTL_SECONDS",
            description="Seconds after which another worker takes over the messages of an unresponsive worker. "
            "A lease on a message lasts at most 30 seconds and is renewed.",
        ),
    ] = 120
    concurrency: Annotated[
        PositiveInt,
        Field(
            alias="MAILWRIGHT_CONCURRENCY",
            description="Maximum number of messages that each worker process sends at the same time, over all its"
            " providers.",
        ),
    ] = 64
    claim_batch: Annotated[
        PositiveInt,
        Field(alias="MAILWRIGHT_CLAIM_BATCH", description="Maximum number of messages that a worker claims at once."),
    ] = 500
    shutdown_grace_seconds: Annotated[
        PositiveInt,
        Field(
            alias="SHUTDOWN_GRACE_SECONDS",
            description="Seconds that sends in progress get to finish during a graceful shutdown.",
        ),
    ] = 30

    metrics_port: Annotated[
        int | None,
        Field(
            alias="MAILWRIGHT_METRICS_PORT",
            gt=0,
            le=65535,
            description="Port on which `worker` serves the metrics of all its processes.",
        ),
    ] = None
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"],
        BeforeValidator(lambda level: level.upper() if isinstance(level, str) else level),
        Field(alias="MAILWRIGHT_LOG_LEVEL", description="Log level."),
    ] = "INFO"
    log_format: Annotated[
        Literal["json", "console"],
        Field(alias="MAILWRIGHT_LOG_FORMAT", description="Log format: JSON lines, or text for a console."),
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
        file = _named_file(CONFIG_VARIABLE) or Path(CONFIG_FILE)
        ours: list[PydanticBaseSettingsSource] = [_VariablesSource(settings_cls)]
        # Reading a source takes time even if it is empty, because it is compared with all settings. So empty sources
        # are left out.
        if secrets := secret_values(settings_cls.model_fields):
            ours.append(InitSettingsSource(settings_cls, dict(secrets)))
        if file.is_file():
            ours.append(TomlConfigSettingsSource(settings_cls, file))
        return init_settings, *ours, InitSettingsSource(settings_cls, amazonsender.translate(os.environ))

    @field_validator("smtp_relay_url")
    @classmethod
    def _require_relay_url(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value is None and info.data.get("smtp_mode") is SmtpMode.SHADOW:
            raise ValueError(
                "must be set if MAILWRIGHT_SMTP_MODE is shadow, for example to smtp://mail.example.com:587"
            )
        return value

    @field_validator(
        "unsubscribe_retired_secrets",
        "sender_domains",
        "dns_servers",
        "disposable_domains",
        "oidc_email_domains",
        "oidc_second_factor",
        mode="before",
    )
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        return split_commas(value)

    @field_validator(
        "notion_mailout_properties", "notion_error_properties", "notion_statuses", "profiles_columns", mode="before"
    )
    @classmethod
    def _parse_pairs(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if any(not name.strip() or not renamed.strip() for name, _, renamed in pairs):
            raise ValueError("use `name=value` pairs separated by commas, for example `subject=Betreff, test=Probe`")
        return {name.strip(): renamed.strip() for name, _, renamed in pairs}

    @field_validator("unsubscribe_confirm", mode="before")
    @classmethod
    def _parse_confirmation(cls, value: Any) -> Any:
        """Accept every spelling of true and false."""
        text = str(value).strip().lower() if isinstance(value, str | bool | int) else value
        if text in _TRUE:
            return "true"
        return "false" if text in _FALSE else text

    @field_validator("base_url", "unsubscribe_base_url", "notify_base_url")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is not None and not _is_web_address(value):
            raise ValueError(
                lazy_gettext("must begin with http:// or https:// and name a host, such as https://mail.example.com")
            )
        return value

    @field_validator("working_hours")
    @classmethod
    def _check_hours(cls, value: str) -> str:
        parse_working_hours(value)
        return value

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(
                lazy_gettext("unknown time zone; use an IANA name such as Europe/Lisbon or UTC")
            ) from error
        return value

    @field_validator("unsubscribe_secret")
    @classmethod
    def _check_length(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < 16:
            raise ValueError("use at least 16 characters")
        return value

    @field_validator("unsubscribe_retired_secrets")
    @classmethod
    def _check_each_length(cls, value: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(secret.get_secret_value()) < 16 for secret in value):
            raise ValueError("use at least 16 characters for each")
        return value

    @property
    def sender_postal_address(self) -> str | None:
        """The postal address in bulk email: the installation's, or else the one in the footer of mailouts."""
        return self.postal_address or self.org_address

    @property
    def has_supabase(self) -> bool:
        return self.supabase_url is not None and self.supabase_service_role_key is not None

    @property
    def import_bytes(self) -> int:
        return self.import_limit_mb * 1024**2

    @property
    def public_url(self) -> str:
        return (self.base_url or self._served_at or http_address(self.host, self.port)).rstrip("/")

    @property
    def has_public_address(self) -> bool:
        """Whether the settings define the public URL. If not, `serve` stores its address in the database."""
        return not self.model_fields_set.isdisjoint({"base_url", "port"})

    def served_at(self, address: str) -> Self:
        """Return a copy whose links use the address of another process that serves the dashboard."""
        served = self.model_copy()
        served._served_at = address
        return served

    @property
    def base(self) -> "Settings":
        """The settings of this process alone, without the values that are stored in the database."""
        return self._base or self

    def with_stored(self, stored: Mapping[str, Any]) -> "Settings":
        """Return a copy that uses stored values for the settings that this process does not set itself.

        This is the only place that decides between the environment, the file, the database and the defaults.
        """
        base = self.base
        used = {name: value for name, value in stored.items() if name not in base.model_fields_set}
        merged = base.model_copy(update=used)
        merged._base = base
        return merged

    @property
    def unsubscribe_url(self) -> str:
        return self.unsubscribe_base_url or f"{self.public_url}/unsubscribe"


class _VariablesSource(EnvSettingsSource):
    """Reads only the variables that are set. Looking for all other settings would take most of the time."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls)
        # Field names count only in `mailwright.toml`, because variables such as PORT or STATE belong to other programs.
        names = {(field.alias or "").lower() for field in settings_cls.model_fields.values()}
        self.env_vars = {name: value for name, value in self.env_vars.items() if name in names}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        is_set = (field.alias or "").lower() in self.env_vars
        return super().get_field_value(field, field_name) if is_set else (None, field_name, False)

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        return None if value is None else super().prepare_field_value(field_name, field, value, value_is_complex)


class _AmazonSenderFirst(Settings, defer_build=True):  # Few installations need it, and building it takes 16 ms.
    """The settings with AmazonSender's names before Mailwright's, to find settings that both set differently."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: PydanticBaseSettingsSource, **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        given, *ours, theirs = super().settings_customise_sources(settings_cls, *sources, **named)
        return given, theirs, *ours


def load(**overrides: Any) -> Settings:
    """Read the settings, or raise one error that lists every problem."""
    try:
        _load_env_file()
        settings = Settings(**overrides)
        if amazonsender.given_names(os.environ):
            _require_agreement(settings, _AmazonSenderFirst(**overrides))
        if settings.dry_run:
            settings = Settings(**overrides | {"provider": "mailbox", "route": None, "mailbox_mailouts": True})
        if unreadable := secret_problems(Settings.model_fields):
            raise ConfigurationInvalid(*unreadable)
    except ValidationError as error:
        unreadable = secret_problems(Settings.model_fields)
        raise ConfigurationInvalid(*unreadable, *(describe_problem(detail) for detail in error.errors())) from error
    except (OSError, ValueError) as error:
        raise ConfigurationInvalid(
            str(error) if isinstance(error, FileNotFoundError) else f"{CONFIG_FILE}: {error}"
        ) from error
    return settings


def _load_env_file() -> None:
    """Add the variables of the file to the environment, so that the AWS credential chain finds them too."""
    file = _named_file(ENV_FILE_VARIABLE)
    if file is not None:
        for name, value in read_env_file(file, case_sensitive=True).items():
            os.environ.setdefault(name, value or "")


def _named_file(variable: str) -> Path | None:
    named = os.environ.get(variable)
    if not named:
        return None
    if not Path(named).is_file():
        raise FileNotFoundError(f"{variable}: the file {named} does not exist")
    return Path(named)


def _require_agreement(ours: Settings, theirs: Settings) -> None:
    """Raise an error if both names of a setting are set to different values, because the intention is unclear."""
    fields = {field.alias: name for name, field in Settings.model_fields.items()}
    conflicts = [
        f"{name}: {alias.setting} is the same setting and has a different value; remove one of them"
        for name, alias in amazonsender.given_names(os.environ).items()
        if _value(ours, fields[alias.setting], alias.pair) != _value(theirs, fields[alias.setting], alias.pair)
    ]
    if conflicts:
        raise ConfigurationInvalid(*conflicts)


def _value(settings: Settings, field: str, pair: str | None) -> Any:
    value = getattr(settings, field)
    return value if pair is None else value.get(pair)


# Messages by pydantic error type. The names in braces are replaced with the field's limits.
_PROBLEMS = {
    "int_parsing": lazy_gettext("must be a whole number"),
    "int_type": lazy_gettext("must be a whole number"),
    "int_from_float": lazy_gettext("must be a whole number"),
    "float_parsing": lazy_gettext("must be a number"),
    "float_type": lazy_gettext("must be a number"),
    "bool_parsing": lazy_gettext("must be true or false"),
    "bool_type": lazy_gettext("must be true or false"),
    "string_type": lazy_gettext("must be text"),
    "greater_than": lazy_gettext("must be greater than {gt}"),
    "greater_than_equal": lazy_gettext("must be at least {ge}"),
    "less_than_equal": lazy_gettext("must be at most {le}"),
    "string_too_long": lazy_gettext("must have at most {max_length} characters"),
    "string_pattern_mismatch": lazy_gettext(
        "must consist of letters, digits and underscores, and must not begin with a digit"
    ),
    "literal_error": lazy_gettext("must be {expected}"),
    "date_from_datetime_parsing": lazy_gettext("must be a date such as 2027-01-15"),
    "date_parsing": lazy_gettext("must be a date such as 2027-01-15"),
    "extra_forbidden": lazy_gettext("unknown setting; check the spelling"),
}


def describe_problem(detail: Any) -> str:
    """Describe an error of pydantic with the name that the user has set."""
    name = str(detail["loc"][0]) if detail["loc"] else CONFIG_FILE
    field = Settings.model_fields.get(name)
    setting = _name_in_environment((field.alias or name) if field else name)
    if detail["type"] == "extra_forbidden" and (release := find_last_release_with(name)):
        return setting_problem(setting, lazy_gettext("was a setting until {release}; remove it", release=release))
    template, values = _PROBLEMS.get(detail["type"]), detail.get("ctx", {})
    if template is not None:
        return setting_problem(setting, lazy_gettext(english_text(template), **values))
    message = values.get("error") or detail["msg"]
    return setting_problem(setting, lazy_text(lambda: lower_first(str(message))))


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in text
    except ValueError:
        return False


def _name_in_environment(setting: str) -> str:
    """Return the variable that the user has set for this setting: Mailwright's name or AmazonSender's."""
    if os.environ.get(setting):
        return setting
    given = amazonsender.given_names(os.environ)
    return next((name for name, alias in given.items() if alias.setting == setting and alias.pair is None), setting)


def secret_text(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret is not None else None
