"""Other programs' names of settings, so that an installation can move to Mailwright with an unchanged `.env`.

Nearly all of them are AmazonSender's. Names that both programs share, such as `ORG_NAME` and `SUPABASE_URL`, need no
entry in this module.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name for a setting. `setting` is Mailwright's name.

    If the setting contains `name=value` pairs, `pair` is the name of the pair that this variable sets.
    """

    setting: str
    pair: str | None = None
    convert: Callable[[str], str] = str.strip
    # True if other programs use the name too. Then it counts only together with a name that only AmazonSender has.
    is_common: bool = False
    # True if the name is not AmazonSender's. It always counts, and says nothing about the other names.
    is_independent: bool = False


def _to_level(text: str) -> str:
    return "WARNING" if text.strip().lower() == "warn" else text.strip()


def _to_seconds(milliseconds: str) -> str:
    """Convert a polling interval. AmazonSender does not poll if the interval is shorter than a second."""
    text = milliseconds.strip()
    return str(int(text) // 1_000) if text.isdecimal() else text


def _to_commas(text: str) -> str:
    return ",".join(re.split(r"[,;\s]+", text.strip()))


_PROPERTIES: Final = "NOTION_MAILOUT_PROPERTIES"
_ERROR_PROPERTIES: Final = "NOTION_ERROR_PROPERTIES"
_STATUSES: Final = "NOTION_STATUSES"

ALIASES: Final[Mapping[str, Alias]] = {
    "UNSUB_SECRET": Alias("UNSUBSCRIBE_SECRET", is_independent=True),
    "PORT": Alias("MAILWRIGHT_PORT", is_common=True),
    "APP_BASE_URL": Alias("MAILWRIGHT_BASE_URL", is_common=True),
    "LOG_LEVEL": Alias("MAILWRIGHT_LOG_LEVEL", convert=_to_level, is_common=True),
    "DRY_RUN_SEND": Alias("MAILWRIGHT_DRY_RUN"),
    "EXECUTOR_SHARED_SECRET": Alias("MAILWRIGHT_MAILOUT_TOKEN"),
    "SES_FROM_EMAIL": Alias("FROM_EMAIL"),
    "RATE_LIMIT_PER_SEC": Alias("SEND_RATE_PER_SEC"),
    "SNS_ALLOWED_TOPIC_ARNS": Alias("SNS_TOPIC_ARNS", convert=_to_commas),
    "NOTION_API_TOKEN": Alias("NOTION_TOKEN"),
    "NOTION_DB_MAILOUTS_ID": Alias("NOTION_DB_MAILOUTS"),
    "NOTION_DB_ERRORS_ID": Alias("NOTION_DB_ERRORS"),
    "NOTION_POLL_INTERVAL": Alias("MAILWRIGHT_MAILOUT_WATCH_SECONDS", convert=_to_seconds),
    "NOTION_TRIGGER_STATUS_VALUE": Alias(_STATUSES, "test"),
    "NOTION_TRIGGER_STATUS_REAL_VALUE": Alias(_STATUSES, "ready"),
    "NOTION_TRIGGER_STATUS_RESET_VALUE": Alias(_STATUSES, "reset"),
    "NOTION_STATUS_IN_PROGRESS_VALUE": Alias(_STATUSES, "in_progress"),
    "NOTION_STATUS_NOT_STARTED_VALUE": Alias(_STATUSES, "not_started"),
    "NOTION_STATUS_SENT_VALUE": Alias(_STATUSES, "send"),
    "NOTION_STATUS_FAILED_VALUE": Alias(_STATUSES, "failed"),
    "NOTION_SUBJECT_PROP": Alias(_PROPERTIES, "subject"),
    "NOTION_STATUS_PROP": Alias(_PROPERTIES, "status"),
    "NOTION_TEST_PROP": Alias(_PROPERTIES, "test"),
    "NOTION_SENT_AT_PROP": Alias(_PROPERTIES, "sent_at"),
    "NOTION_SENT_COUNT_PROP": Alias(_PROPERTIES, "sent_count"),
    "NOTION_FAILED_COUNT_PROP": Alias(_PROPERTIES, "failed_count"),
    "NOTION_DELIVERED_COUNT_PROP": Alias(_PROPERTIES, "delivered_count"),
    "NOTION_BOUNCE_RATE_PROP": Alias(_PROPERTIES, "bounce_rate"),
    "NOTION_UNSUB_RATE_PROP": Alias(_PROPERTIES, "unsub_rate"),
    "NOTION_ERROR_TITLE_PROP": Alias(_ERROR_PROPERTIES, "name"),
    "NOTION_ERROR_TIMESTAMP_PROP": Alias(_ERROR_PROPERTIES, "timestamp"),
    "NOTION_ERROR_MAILOUT_PROP": Alias(_ERROR_PROPERTIES, "mailout_id"),
    "NOTION_ERROR_TEST_PROP": Alias(_ERROR_PROPERTIES, "is_test"),
    "NOTION_ERROR_PROVIDER_PROP": Alias(_ERROR_PROPERTIES, "provider"),
    "NOTION_ERROR_STAGE_PROP": Alias(_ERROR_PROPERTIES, "stage"),
    "NOTION_ERROR_EMAIL_PROP": Alias(_ERROR_PROPERTIES, "email"),
    "NOTION_ERROR_CODE_PROP": Alias(_ERROR_PROPERTIES, "error_code"),
    "NOTION_ERROR_MESSAGE_PROP": Alias(_ERROR_PROPERTIES, "error_message"),
    "NOTION_ERROR_RETRY_PROP": Alias(_ERROR_PROPERTIES, "retry_count"),
}

# Names that have no effect in Mailwright, with the reason or the replacement.
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "ALLOW_NON_TEST_SEND": "a page with the status for real mailouts and without Test goes to everyone",
    "BACKOFF_DELAYS": "the delays of retries are fixed: 1 s, 5 s, 30 s, 2 min and 10 min",
    "CSV_OUTPUT_DIR": "the report of a mailout has the results of a run",
    "MACOS_NOTIFICATIONS": "the list of mailouts shows the runs",
    "NOTION_WEBHOOK_VERIFICATION_TOKEN": "`/send-mailout` requires a password or the `x-auth-token` header",
    "RETRY_SCHEDULE_MS": "declare it for an event type (`retry_schedule_ms` in `MAILWRIGHT_NOTIFY_KINDS`)",
    "SNS_SECRET": "SNS signs its messages; set SNS_TOPIC_ARNS to the topics to trust",
}


def given_names(environment: Mapping[str, str]) -> dict[str, Alias]:
    """Return the other names that are set. Common ones count only in an installation of AmazonSender."""
    given = {name: alias for name, alias in ALIASES.items() if environment.get(name, "").strip()}
    is_amazonsender = any(not (alias.is_common or alias.is_independent) for alias in given.values())
    return {name: alias for name, alias in given.items() if is_amazonsender or alias.is_independent}


def translate(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the other names under our names."""
    values: dict[str, Any] = {}
    for name, alias in given_names(environment).items():
        value = alias.convert(environment[name])
        if alias.pair is None:
            values[alias.setting] = value
        else:
            values.setdefault(alias.setting, {})[alias.pair] = value
    return values
