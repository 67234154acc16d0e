"""The `sparkpost` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import FormRow, ProviderKind, ProviderSettings, SettingField, SpfKind, WebhookKind

PROVIDER: Final = "sparkpost"
# SparkPost includes the metadata in every event of the message.
MESSAGE_METADATA: Final = "mailwright_message"


class SparkPostFields(ProviderSettings):
    sparkpost_api_key: Annotated[
        SecretStr | None,
        Field(
            alias="SPARKPOST_API_KEY", description="SparkPost API key with the permission *Transmissions: Read/Write*."
        ),
    ] = None
    sparkpost_subaccount: Annotated[
        str | None,
        Field(
            alias="SPARKPOST_SUBACCOUNT",
            description="Number of the SparkPost subaccount that sends, if the API key belongs to the main account.",
        ),
    ] = None
    sparkpost_url: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_SPARKPOST_URL",
            description="SparkPost endpoint: `https://api.eu.sparkpost.com` in the EU, or a test server.",
        ),
    ] = "https://api.sparkpost.com"
    sparkpost_webhook_secret: Annotated[
        SecretStr | None,
        Field(
            alias="SPARKPOST_WEBHOOK_SECRET",
            description="Password of the webhook's basic authentication in SparkPost, at least 16 characters.",
        ),
    ] = None


KIND: Final = ProviderKind(
    name=PROVIDER,
    package=__package__,
    label="SparkPost",
    summary=lazy_gettext("With an API key"),
    fields=SparkPostFields,
    form=(
        SettingField(
            "sparkpost_api_key",
            lazy_gettext("API key"),
            question="API key of SparkPost",
            hint=lazy_gettext("The key needs the permission to send transmissions."),
        ),
        FormRow(
            (
                SettingField(
                    "sparkpost_url",
                    lazy_gettext("Region"),
                    choices=(
                        ("https://api.sparkpost.com", "United States"),
                        ("https://api.eu.sparkpost.com", "European Union"),
                    ),
                ),
                SettingField("sparkpost_subaccount", lazy_gettext("Subaccount"), placeholder="123"),
            )
        ),
        SettingField(
            "sparkpost_webhook_secret",
            lazy_gettext("Webhook password"),
            question="Password of the webhook in SparkPost (Enter skips it)",
        ),
    ),
    required=("sparkpost_api_key",),
    optional=("sparkpost_subaccount", "sparkpost_url", "sparkpost_webhook_secret"),
    inherited=("sparkpost_url",),
    account=("sparkpost_url", "sparkpost_subaccount"),
    stdin_setting="sparkpost_api_key",
    server_urls=("sparkpost_url",),
    converts_raw=True,
    spf=SpfKind(relays=(".sparkpostmail.com",)),
    webhook=WebhookKind(
        "sparkpost_webhook_secret",
        instruction="SPARKPOST_WEBHOOK_SECRET to the password of the webhook's basic authentication in SparkPost",
        description="Receive events from SparkPost's webhooks, with basic authentication or a bearer token.",
    ),
    from_refused=("SPARKPOST_SENDER_REFUSED",),
)
