"""The `ses` provider: its settings, form, events and limits."""

from base64 import b32decode
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import NoDecode

from mailwright.domain.translation import lazy_gettext
from mailwright.ops.provider_kind import (
    FormRow,
    ProviderKind,
    ProviderSettings,
    SettingField,
    SpfKind,
    WebhookKind,
    split_commas,
)


class SesFields(ProviderSettings):
    aws_region: Annotated[
        str | None,
        Field(alias="AWS_REGION", description="AWS region of SES and SQS, for example `eu-west-1`."),
    ] = None
    aws_access_key_id: Annotated[
        str | None,
        Field(
            alias="AWS_ACCESS_KEY_ID",
            description="AWS access key of SES and SQS. Defaults to the AWS credential chain: a profile or a role.",
        ),
    ] = None
    aws_secret_access_key: Annotated[
        SecretStr | None,
        Field(alias="AWS_SECRET_ACCESS_KEY", description="Secret of this access key."),
    ] = None
    ses_configuration_set: Annotated[
        str | None,
        Field(
            alias="SES_CONFIGURATION_SET",
            description="SES configuration set that publishes the events of sent messages.",
        ),
    ] = None
    ses_url: Annotated[
        str | None,
        Field(
            alias="MAILWRIGHT_SES_URL", description="SES endpoint for tests. Defaults to the endpoint of the region."
        ),
    ] = None
    sns_topic_arns: Annotated[
        tuple[str, ...],
        NoDecode,
        BeforeValidator(split_commas),
        Field(
            alias="SNS_TOPIC_ARNS", description="SNS topics from which SES events are accepted, separated by commas."
        ),
    ] = ()
    sns_certs: Annotated[
        Path | None,
        Field(
            alias="MAILWRIGHT_SNS_CERTS",
            description="Folder of SNS signing certificates for tests, used instead of Amazon's.",
        ),
    ] = None
    sqs_queue_url: Annotated[
        str | None, Field(alias="MAILWRIGHT_SQS_QUEUE_URL", description="SQS queue to poll for SES events.")
    ] = None


def aws_account(key_id: str) -> str:
    """Return the AWS account of an access key.

    The key ID contains the account, so a rotated key yields the same account.
    """
    try:
        number = int.from_bytes(b32decode(key_id[4:])[:6])
    except ValueError:
        return key_id
    return str((number & 0x7FFFFFFFFF80) >> 7)


KIND: Final = ProviderKind(
    name="ses",
    package=__package__,
    label="Amazon SES",
    summary=lazy_gettext("With an access key, or the role of this machine"),
    fields=SesFields,
    form=(
        SettingField(
            "aws_region",
            lazy_gettext("Region"),
            question="AWS region of SES, for example eu-west-1",
            placeholder="eu-west-1",
        ),
        FormRow(
            (
                SettingField(
                    "aws_access_key_id",
                    lazy_gettext("Access key ID"),
                    question="AWS access key ID (Enter uses the role of this machine)",
                    hint=lazy_gettext("Leave empty to use the role or profile of this machine."),
                ),
                SettingField(
                    "aws_secret_access_key",
                    lazy_gettext("Secret access key"),
                    question="AWS secret access key",
                    needs="aws_access_key_id",
                ),
            )
        ),
        SettingField(
            "ses_configuration_set",
            lazy_gettext("Configuration set"),
            hint=lazy_gettext("It publishes bounces and complaints, if you use one."),
        ),
    ),
    required=("aws_region",),
    required_if_named=("aws_access_key_id", "aws_secret_access_key"),
    optional=("ses_configuration_set", "sns_topic_arns"),
    not_stored=("sns_topic_arns",),
    account=("aws_region", "aws_access_key_id"),
    account_of={"aws_access_key_id": aws_account},
    stdin_setting="aws_secret_access_key",
    credential="aws_access_key_id",
    server_urls=("ses_url",),
    spf=SpfKind(relays=(".amazonaws.com",)),
    webhook=WebhookKind(
        "sns_topic_arns",
        instruction="SNS_TOPIC_ARNS to the SNS topics of this provider",
        description="Receive SES events from an SNS topic. "
        "Also confirms the subscription of a topic in SNS_TOPIC_ARNS.",
        is_optional=True,
        # SNS messages have up to 256 KB, and escaping makes nested JSON longer.
        max_bytes=2 * 1024 * 1024,
    ),
    event_settings=("sns_topic_arns", "sqs_queue_url", "ses_configuration_set"),
    # A configuration set alone may publish its events anywhere.
    delivered_by=("sns_topic_arns", "sqs_queue_url"),
    has_queue=True,
    checks_events=True,
    not_named=("sqs_queue_url",),
    has_quota=True,
    from_refused=("SES_SENDER_NOT_VERIFIED", "SES_MAIL_FROM_DOMAIN_NOT_VERIFIED"),
    sender_not_allowed=("SES_SENDER_NOT_ALLOWED",),
)
