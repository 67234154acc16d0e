"""The `resend` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind, ProviderSettings, SettingField, SpfKind, WebhookKind


class ResendFields(ProviderSettings):
    resend_api_key: Annotated[
        SecretStr | None, Field(alias="RESEND_API_KEY", description="Resend API key with permission to send email.")
    ] = None
    resend_url: Annotated[
        str, Field(alias="MAILWRIGHT_RESEND_URL", description="Resend endpoint, or a test server.")
    ] = "https://api.resend.com"
    resend_webhook_secret: Annotated[
        SecretStr | None,
        Field(alias="RESEND_WEBHOOK_SECRET", description="Signing secret of the webhook in Resend (`whsec_…`)."),
    ] = None


KIND: Final = ProviderKind(
    name="resend",
    package=__package__,
    label="Resend",
    summary=lazy_gettext("With an API key"),
    fields=ResendFields,
    form=(
        SettingField(
            "resend_api_key",
            lazy_gettext("API key"),
            question="API key of Resend",
            hint=lazy_gettext("It must be allowed to send email."),
        ),
        SettingField(
            "resend_webhook_secret",
            lazy_gettext("Webhook signing secret"),
            question="Signing secret of the webhook in Resend (Enter skips it)",
        ),
    ),
    required=("resend_api_key",),
    optional=("resend_webhook_secret",),
    stdin_setting="resend_api_key",
    server_urls=("resend_url",),
    converts_raw=True,
    spf=SpfKind(relays=(".resend.com",)),
    webhook=WebhookKind(
        "resend_webhook_secret",
        instruction="RESEND_WEBHOOK_SECRET to the signing secret of the webhook in Resend",
        description="Receive events from Resend's signed webhooks.",
    ),
    from_refused=("RESEND_SENDER_REFUSED",),
)
