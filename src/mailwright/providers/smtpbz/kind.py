"""The `smtpbz` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind, ProviderSettings, SettingField, SmtpServerFields, SpfKind


class SmtpBzFields(ProviderSettings):
    smtpbz_api_key: Annotated[
        SecretStr | None,
        Field(alias="SMTPBZ_API_KEY", description="smtp.bz API key, used to read the remaining quota."),
    ] = None
    smtpbz_url: Annotated[
        str, Field(alias="MAILWRIGHT_SMTPBZ_URL", description="smtp.bz API endpoint, or a test server.")
    ] = "https://api.smtp.bz/v1"
    smtpbz_smtp_url: Annotated[
        SecretStr | None,
        Field(
            alias="SMTPBZ_SMTP_URL",
            description="SMTP server of smtp.bz with your login. Defaults to `MAILWRIGHT_SMTP_URL`.",
        ),
    ] = None


KIND: Final = ProviderKind(
    name="smtpbz",
    package=__package__,
    label="smtp.bz",
    summary=lazy_gettext("With the SMTP login of your account"),
    fields=SmtpBzFields,
    form=(
        SmtpServerFields(
            "smtpbz_smtp_url",
            "connect.smtp.bz",
            question="URL of the SMTP server of smtp.bz, smtp://user:password@host:587",
        ),
        SettingField(
            "smtpbz_api_key",
            lazy_gettext("API key"),
            question="API key of smtp.bz (Enter skips it)",
            hint=lazy_gettext("Used to read the remaining quota."),
        ),
    ),
    required=("smtpbz_smtp_url",),
    optional=("smtpbz_api_key", "smtp_connections"),
    account=("smtpbz_smtp_url",),
    stdin_setting="smtpbz_smtp_url",
    server_urls=("smtpbz_smtp_url", "smtp_url"),
    spf=SpfKind(has_own_return_path=False, hint="Ask smtp.bz which servers the record must allow."),
    has_quota=True,
    quota_setting="smtpbz_api_key",
    usual_hourly_limit=100,
)
