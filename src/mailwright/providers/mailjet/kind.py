"""The `mailjet` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind, ProviderSettings, SettingField, SpfKind, WebhookKind

PROVIDER: Final = "mailjet"


class MailjetFields(ProviderSettings):
    mailjet_api_key: Annotated[
        str | None, Field(alias="MAILJET_API_KEY", description="Mailjet API key, the public part.")
    ] = None
    mailjet_secret_key: Annotated[
        SecretStr | None, Field(alias="MAILJET_SECRET_KEY", description="Secret key that belongs to the API key.")
    ] = None
    mailjet_url: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_MAILJET_URL",
            description="Mailjet endpoint: `https://api.us.mailjet.com` for accounts in the US, or a test server.",
        ),
    ] = "https://api.mailjet.com"
    mailjet_webhook_secret: Annotated[
        SecretStr | None,
        Field(
            alias="MAILJET_WEBHOOK_SECRET",
            description="Password in the webhook URL of Mailjet, at least 16 characters.",
        ),
    ] = None


KIND: Final = ProviderKind(
    name=PROVIDER,
    package=__package__,
    label="Mailjet",
    summary=lazy_gettext("With an API key and a secret key"),
    fields=MailjetFields,
    form=(
        SettingField("mailjet_api_key", lazy_gettext("API key"), question="API key of Mailjet"),
        SettingField("mailjet_secret_key", lazy_gettext("Secret key"), question="Secret key of Mailjet"),
        SettingField(
            "mailjet_url",
            lazy_gettext("Region"),
            choices=(("https://api.mailjet.com", "European Union"), ("https://api.us.mailjet.com", "United States")),
        ),
        SettingField(
            "mailjet_webhook_secret",
            lazy_gettext("Webhook password"),
            question="Password in the webhook URL of Mailjet (Enter skips it)",
        ),
    ),
    required=("mailjet_api_key", "mailjet_secret_key"),
    optional=("mailjet_url", "mailjet_webhook_secret"),
    inherited=("mailjet_url",),
    account=("mailjet_api_key", "mailjet_url"),
    stdin_setting="mailjet_secret_key",
    server_urls=("mailjet_url",),
    converts_raw=True,
    spf=SpfKind(relays=(".mailjet.com",), mechanism=lambda _settings, _domain: "include:spf.mailjet.com"),
    webhook=WebhookKind(
        "mailjet_webhook_secret",
        instruction="MAILJET_WEBHOOK_SECRET to the password in the webhook URL of Mailjet",
        description="Receive events from Mailjet's webhooks, with a password in their URL.",
        url_prefix="https://mailwright:PASSWORD@",
    ),
    from_refused=("MAILJET_SENDER_REFUSED",),
)
