"""The `sendgrid` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind, ProviderSettings, SettingField, SpfKind, WebhookKind


class SendGridFields(ProviderSettings):
    sendgrid_api_key: Annotated[
        SecretStr | None, Field(alias="SENDGRID_API_KEY", description="SendGrid API key with permission to send email.")
    ] = None
    sendgrid_url: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_SENDGRID_URL",
            description="SendGrid endpoint: `https://api.eu.sendgrid.com` in the EU, or a test server.",
        ),
    ] = "https://api.sendgrid.com"
    sendgrid_webhook_public_key: Annotated[
        str | None,
        Field(alias="SENDGRID_WEBHOOK_PUBLIC_KEY", description="Public key of SendGrid's signed event webhook."),
    ] = None


KIND: Final = ProviderKind(
    name="sendgrid",
    package=__package__,
    label="SendGrid",
    summary=lazy_gettext("With an API key"),
    fields=SendGridFields,
    form=(
        SettingField(
            "sendgrid_api_key",
            lazy_gettext("API key"),
            question="API key of SendGrid",
            hint=lazy_gettext("It must be allowed to send email."),
        ),
        SettingField(
            "sendgrid_url",
            lazy_gettext("Region"),
            choices=(("https://api.sendgrid.com", "Global"), ("https://api.eu.sendgrid.com", "European Union")),
        ),
    ),
    required=("sendgrid_api_key",),
    optional=("sendgrid_url", "sendgrid_webhook_public_key"),
    not_stored=("sendgrid_webhook_public_key",),
    inherited=("sendgrid_url",),
    account=("sendgrid_url",),
    stdin_setting="sendgrid_api_key",
    server_urls=("sendgrid_url",),
    converts_raw=True,
    spf=SpfKind(relays=(".sendgrid.net",)),
    webhook=WebhookKind(
        "sendgrid_webhook_public_key",
        instruction="SENDGRID_WEBHOOK_PUBLIC_KEY to the verification key of SendGrid's signed event webhook",
        description="Receive events from SendGrid's signed event webhook.",
    ),
    from_refused=("SENDGRID_SENDER_REFUSED",),
)
