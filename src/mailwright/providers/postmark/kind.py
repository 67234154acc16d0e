"""The `postmark` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import ProviderKind, ProviderSettings, SettingField, SpfKind, WebhookKind


class PostmarkFields(ProviderSettings):
    postmark_server_token: Annotated[
        SecretStr | None, Field(alias="POSTMARK_SERVER_TOKEN", description="Token of the Postmark server.")
    ] = None
    postmark_message_stream: Annotated[
        str,
        Field(
            alias="POSTMARK_MESSAGE_STREAM",
            description="Postmark message stream. Newsletters need one of the type broadcast.",
        ),
    ] = "outbound"
    postmark_url: Annotated[
        str, Field(alias="MAILWRIGHT_POSTMARK_URL", description="Postmark endpoint, or a test server.")
    ] = "https://api.postmarkapp.com"
    postmark_webhook_secret: Annotated[
        SecretStr | None,
        Field(
            alias="POSTMARK_WEBHOOK_SECRET",
            description="Password in the webhook URL of Postmark, at least 16 characters.",
        ),
    ] = None


KIND: Final = ProviderKind(
    name="postmark",
    package=__package__,
    label="Postmark",
    summary=lazy_gettext("With the token of a server"),
    fields=PostmarkFields,
    form=(
        SettingField("postmark_server_token", lazy_gettext("Server token"), question="Server token of Postmark"),
        SettingField(
            "postmark_message_stream",
            lazy_gettext("Message stream"),
            hint=lazy_gettext("Newsletters need a stream of the type broadcast."),
            placeholder="outbound",
        ),
        SettingField(
            "postmark_webhook_secret",
            lazy_gettext("Webhook password"),
            question="Password in the webhook URL of Postmark (Enter skips it)",
        ),
    ),
    required=("postmark_server_token",),
    optional=("postmark_message_stream", "postmark_webhook_secret"),
    stdin_setting="postmark_server_token",
    server_urls=("postmark_url",),
    converts_raw=True,
    spf=SpfKind(relays=(".postmarkapp.com",)),
    webhook=WebhookKind(
        "postmark_webhook_secret",
        instruction="POSTMARK_WEBHOOK_SECRET to the password in the webhook URL of Postmark",
        description="Receive events from Postmark's webhooks, with a password in their URL.",
        url_prefix="https://mailwright:PASSWORD@",
    ),
    from_refused=("POSTMARK_SENDER_REFUSED",),
)
