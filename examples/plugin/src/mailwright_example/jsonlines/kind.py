"""The `jsonlines` provider: its settings, form and events."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, SecretStr

from mailwright.ops.plugins import PLUGIN_API
from mailwright.ops.provider_kind import ProviderKind, ProviderSettings, SettingField, WebhookKind


class JsonLinesFields(ProviderSettings):
    jsonlines_file: Annotated[
        Path | None, Field(alias="JSONLINES_FILE", description="File to which messages are appended.")
    ] = None
    jsonlines_webhook_secret: Annotated[
        SecretStr | None,
        Field(alias="JSONLINES_WEBHOOK_SECRET", description="Password of events, at least 16 characters."),
    ] = None


KIND: Final = ProviderKind(
    name="jsonlines",
    package=__package__,
    plugin_api=PLUGIN_API,
    label="JSON lines",
    summary="Into a file",
    fields=JsonLinesFields,
    form=(
        SettingField("jsonlines_file", "File", question="File for the messages"),
        SettingField("jsonlines_webhook_secret", "Webhook password"),
    ),
    required=("jsonlines_file",),
    optional=("jsonlines_webhook_secret",),
    needs_http=False,
    webhook=WebhookKind(
        "jsonlines_webhook_secret",
        instruction="JSONLINES_WEBHOOK_SECRET to the password of events",
        description="Receive events of the example plugin.",
    ),
)
