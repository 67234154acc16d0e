"""The `mailgun` provider: its settings, form, events and limits."""

from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import FormRow, ProviderKind, ProviderSettings, SettingField, SpfKind, WebhookKind


class MailgunFields(ProviderSettings):
    mailgun_api_key: Annotated[
        SecretStr | None,
        Field(alias="MAILGUN_API_KEY", description="Mailgun API key, or the sending key of the domain."),
    ] = None
    mailgun_domain: Annotated[
        str | None, Field(alias="MAILGUN_DOMAIN", description="Mailgun domain, for example `mg.example.com`.")
    ] = None
    mailgun_url: Annotated[
        str,
        Field(
            alias="MAILWRIGHT_MAILGUN_URL",
            description="Mailgun endpoint: `https://api.eu.mailgun.net` in the EU, or a test server.",
        ),
    ] = "https://api.mailgun.net"
    mailgun_webhook_signing_key: Annotated[
        SecretStr | None,
        Field(alias="MAILGUN_WEBHOOK_SIGNING_KEY", description="HTTP webhook signing key of Mailgun."),
    ] = None


def _mechanism(settings: MailgunFields, domain: str) -> str | None:
    """Return the mechanism for a From domain that is also the domain in Mailgun, and so its return path."""
    return "include:mailgun.org" if (settings.mailgun_domain or "").lower() == domain else None


KIND: Final = ProviderKind(
    name="mailgun",
    package=__package__,
    label="Mailgun",
    summary=lazy_gettext("With an API key and a domain"),
    fields=MailgunFields,
    form=(
        FormRow(
            (
                SettingField(
                    "mailgun_domain",
                    lazy_gettext("Domain"),
                    question="Domain in Mailgun, for example mg.example.com",
                    placeholder="mg.example.com",
                ),
                SettingField(
                    "mailgun_url",
                    lazy_gettext("Region"),
                    choices=(
                        ("https://api.mailgun.net", "United States"),
                        ("https://api.eu.mailgun.net", "European Union"),
                    ),
                ),
            )
        ),
        SettingField(
            "mailgun_api_key",
            lazy_gettext("API key"),
            question="API key of Mailgun",
            hint=lazy_gettext("A sending key of the domain is enough."),
        ),
        SettingField(
            "mailgun_webhook_signing_key",
            lazy_gettext("Webhook signing key"),
            question="Webhook signing key of Mailgun (Enter skips it)",
        ),
    ),
    required=("mailgun_api_key", "mailgun_domain"),
    optional=("mailgun_url", "mailgun_webhook_signing_key"),
    inherited=("mailgun_url",),
    account=("mailgun_domain", "mailgun_url"),
    stdin_setting="mailgun_api_key",
    server_urls=("mailgun_url",),
    spf=SpfKind(relays=(".mailgun.org",), mechanism=_mechanism),
    webhook=WebhookKind(
        "mailgun_webhook_signing_key",
        instruction="MAILGUN_WEBHOOK_SIGNING_KEY to the HTTP webhook signing key of Mailgun",
        description="Receive events from Mailgun's signed webhooks.",
    ),
    from_refused=("MAILGUN_SENDER_REFUSED",),
)
