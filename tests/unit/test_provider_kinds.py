"""Everything about a provider is in its folder: no other module names it, and its declaration is complete."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import mailwright
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.settings import Settings
from mailwright.ops.stored import STORABLE
from mailwright.ops.unknown_settings import find_unknown_settings

PACKAGE: Final = Path(mailwright.__file__).parent
# Names that mean something else nearly everywhere: a protocol and a page of the dashboard.
GENERAL: Final = frozenset({"smtp", "mailbox"})
# Names that are also words or parts of words. Of these, literals and settings are searched for.
WORDS: Final = frozenset({"resend", "ses"})
# Other services' formats, which Mailwright reads whether or not it sends through these services.
FORMATS: Final = (
    "audience/switching/",
    "cli/contact_switch.py",
    "content/headers.py",
    "events/outbound/formats/",
    "sources/api/",
    "web/api/dropin/",
    "web/dashboard/templates/audience/imports.html",
)
# Where a name outside of its folder is right.
ALLOWED: Final = {
    "actions/campaign_reports.py": "the command that sends a campaign again",
    "actions/keys.py": "keys for the SES API",
    "actions/providers.py": "an example of a name",
    "cli/provider.py": "an example of a name",
    "cli/setup.py": "the option --region",
    "domain/campaign.py": "a campaign that is sent again",
    "domain/outgoing.py": "a comment",
    "domain/provider_routes.py": "an example of a name",
    "domain/retry.py": "articles were sent through one service and keep its retry policy",
    "domain/states.py": "a message in doubt that is sent again",
    "ops/amazonsender.py": "names of settings that others chose",
    "outbox/message_records.py": "events repeat the ID of SES under another name",
    "outbox/sql/find_reported_by_provider_id.sql": "see storage/tables.py",
    "pipeline/conclude.py": "events repeat the ID of SES under another name",
    "providers/aws.py": "credentials of Amazon, also for S3",
    "providers/inbound/rejected_events.py": "an error that names a setting",
    "storage/migrations/versions/0001_initial_schema.postgresql.sql": "see storage/tables.py",
    "storage/migrations/versions/0001_initial_schema.sqlite.sql": "see storage/tables.py",
    "storage/migrations/versions/0002_find_newest_messages_by_index.py": "see storage/tables.py",
    "storage/tables.py": "an index leaves out kinds that report nothing",
    "web/dashboard/settings.py": "keys for the SES API",
    "web/dashboard/templates/settings/keys.html": "keys for the SES API",
}
GENERATED: Final = ("web/dashboard/locale/", "web/dashboard/vendor/")


def files() -> Iterator[tuple[str, str]]:
    for file in sorted(PACKAGE.rglob("*")):
        name = file.relative_to(PACKAGE).as_posix()
        if file.suffix in (".py", ".html", ".css", ".js", ".sql") and not name.startswith(GENERATED):
            yield name, file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS.values() if kind.name not in GENERAL], ids=lambda kind: kind.name
)
def test_only_its_folder_names_a_provider(kind: ProviderKind) -> None:
    found = [
        name
        for name, text in FILES
        if not name.startswith((f"providers/{kind.name}/", *FORMATS))
        and name not in ALLOWED
        and _names(kind, name, text)
    ]
    assert not found, f"{kind.name} is named in {', '.join(found)}: declare it in providers/{kind.name}/kind.py"


def _names(kind: ProviderKind, file: str, text: str) -> bool:
    if any(setting in text for setting in _settings(kind)):
        return True
    if kind.name not in WORDS:
        return kind.name in text.lower()
    if not file.endswith(".py"):
        return False
    literals = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return kind.name in literals


def _settings(kind: ProviderKind) -> set[str]:
    """Return the settings that only this kind has, by field and by variable."""
    fields = getattr(kind.fields, "__annotations__", {})
    return {*fields, *(str(Settings.model_fields[name].alias) for name in fields)}


FILES: Final = tuple(files())


def test_every_exception_still_exists() -> None:
    assert {*ALLOWED} <= {name for name, _ in FILES}


@pytest.mark.parametrize("kind", KINDS.values(), ids=[*KINDS])
def test_declaration_is_complete(kind: ProviderKind) -> None:
    named = {
        *kind.settings,
        *kind.form_settings,
        *kind.event_settings,
        *kind.delivered_by,
        *kind.account,
        *kind.server_urls,
    }
    named |= {*kind.inherited, *kind.not_named, *(name for name, _ in kind.questions)}
    named |= {name for name in (kind.stdin_setting, kind.credential, kind.quota_setting) if name is not None}
    assert named <= Settings.model_fields.keys()
    assert {*kind.form_settings} <= {*STORABLE}, "a form stores what it shows"
    assert {*kind.required} <= {name for name, _ in kind.questions}, "`mailwright setup` asks for what is required"
    provider = kind.load_provider()
    assert callable(provider.make_provider)
    assert callable(provider.read_settings)
    if kind.webhook is not None:
        assert callable(kind.load_events().make_webhook)
        assert kind.webhook.setting in Settings.model_fields
    assert kind.is_local or kind.stdin_setting is not None
    assert f"providers.{kind.name}" in kind.package


def test_misspelt_settings_of_every_provider_are_found() -> None:
    own = [
        str(Settings.model_fields[name].alias)
        for kind in KINDS.values()
        for name in getattr(kind.fields, "__annotations__", ())
    ]
    for variable in (name for name in own if not name.startswith("AWS_")):
        assert [each.name for each in find_unknown_settings({f"{variable}X": "1"})] == [f"{variable}X"]
