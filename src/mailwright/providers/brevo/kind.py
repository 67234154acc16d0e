"""The `brevo` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import (
    ProviderKind,
    ProviderSettings,
    SettingField,
    SmtpServerFields,
    SpfKind,
    WebhookKind,
)


class BrevoFields(ProviderSettings):
    brevo_smtp_url: Annotated[
        SecretStr | None,
        Field(
            alias="BREVO_SMTP_URL",
            description="SMTP server of Brevo with your SMTP key: `smtp://login:key@smtp-relay.brevo.com:587`.",
        ),
    ] = None
    brevo_webhook_secret: Annotated[
        SecretStr | None,
        Field(
            alias="BREVO_WEBHOOK_SECRET",
            description="Token of the webhook in Brevo, or the password in its URL, at least 16 characters.",
        ),
    ] = None


KIND: Final = ProviderKind(
    name="brevo",
    package=__package__,
    label="Brevo",
    summary=lazy_gettext("With an SMTP key"),
    fields=BrevoFields,
    form=(
        SmtpServerFields(
            "brevo_smtp_url",
            "smtp-relay.brevo.com",
            question="URL of the SMTP server of Brevo, smtp://login:key@smtp-relay.brevo.com:587",
        ),
        SettingField(
            "brevo_webhook_secret",
            lazy_gettext("Webhook token"),
            question="Token of the webhook in Brevo (Enter skips it)",
        ),
    ),
    required=("brevo_smtp_url",),
    optional=("brevo_webhook_secret", "smtp_connections"),
    account=("brevo_smtp_url",),
    stdin_setting="brevo_smtp_url",
    server_urls=("brevo_smtp_url",),
    needs_http=False,
    spf=SpfKind(relays=(".brevo.com", ".sendinblue.com")),
    webhook=WebhookKind(
        "brevo_webhook_secret",
        instruction="BREVO_WEBHOOK_SECRET to the token of the webhook in Brevo",
        description="Receive events from Brevo's webhooks, with a bearer token or a password in their URL.",
    ),
)
