"""Verify the settings of mailouts before anything uses them."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar
from urllib.parse import urlsplit

from mailwright.domain import address
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.ops.settings import Settings
from mailwright.sources.mailouts.notion import ErrorColumns, MailoutColumns, notion_id
from mailwright.sources.mailouts.setup import NotionStatuses
from mailwright.sources.mailouts.supabase import find_key_problem

Names = TypeVar("Names", MailoutColumns, ErrorColumns, NotionStatuses)


def verify_mailouts(settings: Settings) -> None:
    """Raise `ConfigurationInvalid` with all problems at once."""
    problems: list[str] = []
    for name, check in _CHECKS.items():
        try:
            check(settings)
        except (ConfigurationInvalid, InvalidInput, address.InvalidAddress) as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise ConfigurationInvalid(*problems)


def parse_names(kind: type[Names], given: dict[str, str]) -> Names:
    """Parse the names that a setting gives to columns or statuses in Notion."""
    known = {field.name for field in fields(kind)}
    if unknown := sorted(given.keys() - known):
        raise ConfigurationInvalid(f"contains unknown names: {', '.join(unknown)}; use {', '.join(sorted(known))}")
    return kind(**given)


def _check_address(text: str | None) -> None:
    try:
        if text is not None:
            address.parse(text)
    except address.InvalidAddress as error:
        raise ConfigurationInvalid(f"{error}; enter only the address, for example news@example.com") from error


def _check_id(text: str | None, name: str) -> None:
    if text is not None:
        notion_id(text, field=name)


def _check_triggers(statuses: NotionStatuses) -> None:
    """Require triggers that differ from each other and from written statuses, so that no result triggers a run."""
    triggers = statuses.triggers
    written = {name: getattr(statuses, name) for name in ("send", "failed", "in_progress", "not_started")}
    for name, status in triggers.items():
        for other, same in {**triggers, **written}.items():
            if other != name and same is not None and same.casefold() == status.casefold():
                raise ConfigurationInvalid(f"`{name}` and `{other}` are both {status}; give each its own status")
    if statuses.reset is not None and statuses.not_started is None:
        raise ConfigurationInvalid("`reset` needs `not_started`, the status of a page after its reset")


def _check_supabase_key(settings: Settings) -> None:
    key = settings.supabase_service_role_key
    if (settings.supabase_url is None) != (key is None):
        raise ConfigurationInvalid("set both this and SUPABASE_URL, or neither")
    if key is not None and (problem := find_key_problem(key.get_secret_value())):
        raise ConfigurationInvalid(problem)


def _check_supabase_url(settings: Settings) -> None:
    if settings.supabase_url is not None and not settings.supabase_url.startswith(("https://", "http://")):
        raise ConfigurationInvalid("must look like https://abcdefgh.supabase.co")


def _check_supabase_project(settings: Settings) -> None:
    ref, host = settings.supabase_project_ref, urlsplit(settings.supabase_url or "").hostname or ""
    if ref is not None and settings.supabase_url is not None and host.partition(".")[0] != ref.lower():
        raise ConfigurationInvalid("SUPABASE_URL belongs to another project; correct one of them")


_CHECKS: dict[str, Callable[[Settings], Any]] = {
    "FROM_EMAIL": lambda settings: _check_address(settings.from_email),
    "REPLY_TO_EMAIL": lambda settings: _check_address(settings.reply_to_email),
    "NOTION_DB_MAILOUTS": lambda settings: _check_id(settings.notion_db_mailouts, "NOTION_DB_MAILOUTS"),
    "NOTION_DB_ERRORS": lambda settings: _check_id(settings.notion_db_errors, "NOTION_DB_ERRORS"),
    "NOTION_MAILOUT_PROPERTIES": lambda settings: parse_names(MailoutColumns, settings.notion_mailout_properties),
    "NOTION_ERROR_PROPERTIES": lambda settings: parse_names(ErrorColumns, settings.notion_error_properties),
    "NOTION_STATUSES": lambda settings: _check_triggers(parse_names(NotionStatuses, settings.notion_statuses)),
    "SUPABASE_URL": _check_supabase_url,
    "SUPABASE_SERVICE_ROLE_KEY": _check_supabase_key,
    "SUPABASE_PROJECT_REF": _check_supabase_project,
}
