"""The environment of AmazonSender: its names work, conflicts are refused, and slips are named."""

import re
from pathlib import Path

import pytest

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.amazonsender import ALIASES, WITHOUT_EFFECT
from mailwright.ops.settings import Settings, load
from mailwright.ops.unknown_settings import find_unknown_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*(field.alias or "" for field in Settings.model_fields.values()), *ALIASES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def problems() -> list[str]:
    with pytest.raises(ConfigurationInvalid) as caught:
        load()
    return list(caught.value.problems)


SPECIAL = {
    "PORT": ("3000", 3000),
    "APP_BASE_URL": ("https://b.example", "https://b.example"),
    "LOG_LEVEL": ("warn", "WARNING"),
    "DRY_RUN_SEND": (" true ", True),
    "RATE_LIMIT_PER_SEC": ("7", 7.0),
    "SNS_ALLOWED_TOPIC_ARNS": ("arn:a; arn:b\tarn:c", ("arn:a", "arn:b", "arn:c")),
    "NOTION_POLL_INTERVAL": ("30000", 30),
    "UNSUB_SECRET": ("a-secret-of-another-program", "a-secret-of-another-program"),
}


@pytest.mark.parametrize("name", ALIASES)
def test_each_amazonsender_name_sets_its_setting(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    given, expected = SPECIAL.get(name, ("Some value", "Some value"))
    monkeypatch.setenv(name, given)
    monkeypatch.setenv("NOTION_SENT_AT_PROP" if name != "NOTION_SENT_AT_PROP" else "NOTION_TEST_PROP", "Sent")
    alias = ALIASES[name]
    field = next(key for key, field in Settings.model_fields.items() if field.alias == alias.setting)
    value = getattr(load(), field)
    value = value.get_secret_value() if hasattr(value, "get_secret_value") else value
    assert (value if alias.pair is None else value[alias.pair]) == expected


def test_other_name_of_the_unsubscribe_secret_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSUB_SECRET", "a-secret-of-another-program")
    monkeypatch.setenv("PORT", "3000")  # A common name, which says nothing without AmazonSender.
    settings = load()
    assert settings.unsubscribe_secret is not None
    assert settings.unsubscribe_secret.get_secret_value() == "a-secret-of-another-program"
    assert settings.port != 3000
    monkeypatch.setenv("UNSUB_SECRET", "short")
    assert problems() == ["UNSUB_SECRET: use at least 16 characters"]


@pytest.mark.parametrize(
    "name",
    [
        "ADMIN_PASSWD",
        "BACKOFF_DELAYS",
        "LOCK_TTL_SECONDS",
        "ORG_ADDRESS_LINE",
        "RETRY_SCHEDULE_MS",
        "SENDGRID_KEY",
        "SEND_RATE_PER_SECOND",
        "SNS_SECRET",
        "TEST_EMAIL",
        "UNSUBSCRIBE_SECRETS",
        "UNSUB_BASE_URL",
        "UNSUB_SECRETS",
    ],
)
def test_unused_name_is_reported_by_the_check(name: str) -> None:
    [found] = find_unknown_settings({name: "x", "HOME": "/root", "PATH": "/bin", "TERM": "xterm"})
    assert found.name == name


@pytest.mark.promise("moving-amazonsender")
@pytest.mark.parametrize("name", ALIASES)
def test_two_different_values_are_refused_with_both_names(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    alias = ALIASES[name]
    theirs = SPECIAL.get(name, ("https://b.example", None))[0]
    others = {"DRY_RUN_SEND": "false", "LOG_LEVEL": "error", "APP_BASE_URL": "https://c.example"}
    ours = {**others, "UNSUB_SECRET": "a-secret-of-mailwright"}.get(name, "9")
    monkeypatch.setenv(name, theirs)
    monkeypatch.setenv("NOTION_API_TOKEN", "secret" if name != "NOTION_API_TOKEN" else theirs)
    monkeypatch.setenv(alias.setting, ours if alias.pair is None else f"{alias.pair}=Other")
    assert [(name in each, alias.setting in each) for each in problems()] == [(True, True)]


def test_equal_values_under_both_names_are_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RATE_LIMIT_PER_SEC", "5")
    monkeypatch.setenv("SEND_RATE_PER_SEC", "5.0")
    assert load().send_rate_per_sec == 5.0
    monkeypatch.delenv("SEND_RATE_PER_SEC")
    (tmp_path / "mailwright.toml").write_text("send_rate_per_sec = 6\n")
    assert "RATE_LIMIT_PER_SEC" in problems()[0]


def test_common_names_alone_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "10000")
    monkeypatch.setenv("LOG_LEVEL", "silly")
    monkeypatch.setenv("STATE", "Texas")
    assert (load().port, load().log_level, load().state) == (8025, "INFO", Path("var/state"))


@pytest.mark.parametrize("value", ["ture", "maybe", "2", "yes please", "нет"])
def test_unclear_dry_run_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("DRY_RUN_SEND", value)
    assert problems() == ["DRY_RUN_SEND: must be true or false"]


@pytest.mark.parametrize(("value", "is_dry"), [("TRUE", True), ("1", True), ("on", True), ("No", False), ("", False)])
def test_dry_run_sends_to_the_local_mailbox(monkeypatch: pytest.MonkeyPatch, value: str, is_dry: bool) -> None:
    for name, each in {"DRY_RUN_SEND": value, "MAILWRIGHT_PROVIDER": "ses", "MAILWRIGHT_ROUTE": "ses, smtp"}.items():
        monkeypatch.setenv(name, each)
    settings = load()
    expected = ("mailbox", None, True) if is_dry else ("ses", "ses, smtp", False)
    assert (settings.provider, settings.route, settings.mailbox_mailouts) == expected


def test_env_file_is_read_below_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "old.env"
    file.write_text("# Sending\nTEST_EMAILS=a@example.com\nNOTION_TRIGGER_STATUS_REAL_VALUE=Send real\nORG_NAME=\n")
    for name in ("TEST_EMAILS", "NOTION_TRIGGER_STATUS_REAL_VALUE", "ORG_NAME"):
        monkeypatch.setenv(name, "x")  # Restored after the test.
        monkeypatch.delenv(name)
    monkeypatch.setenv("MAILWRIGHT_ENV_FILE", str(file))
    assert (load().test_emails, load().notion_statuses) == ("a@example.com", {"ready": "Send real"})
    monkeypatch.setenv("TEST_EMAILS", "b@example.com")
    assert load().test_emails == "b@example.com"
    monkeypatch.setenv("MAILWRIGHT_ENV_FILE", "nowhere.env")
    assert problems() == ["MAILWRIGHT_ENV_FILE: the file nowhere.env does not exist"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MAILWRIGHT_PROVDER", "MAILWRIGHT_PROVIDER"),
        ("MAILWRIGHT_QUITE_OTHER_THING", None),
        ("NOTION_TRIGGER_STATUS_REAL", "NOTION_TRIGGER_STATUS_REAL_VALUE"),
        ("DRY_RUN_SENT", "DRY_RUN_SEND"),
        ("TEST_EMAIL", "TEST_EMAILS"),
        ("UNSUBSCRIBE_SECRETS", "UNSUBSCRIBE_SECRET"),
    ],
)
def test_misspelt_settings_are_named_with_the_nearest_one(name: str, nearest: str | None) -> None:
    ordinary = dict.fromkeys(("PATH", "HOME", "AWS_REGIONS", "TERM", "LANG", "HOSTNAME", "mailwright_port"), "x")
    [found] = find_unknown_settings({**ordinary, name: "x"})
    assert found.name == name
    assert (nearest or "check the spelling") in found.problem


def test_names_without_effect_are_explained() -> None:
    found = {each.name: each.problem for each in find_unknown_settings(dict.fromkeys(WITHOUT_EFFECT, "x"))}
    assert found.keys() == WITHOUT_EFFECT.keys()
    assert all("no effect" in problem for problem in found.values())


@pytest.mark.promise("moving-amazonsender")
def test_guide_lists_every_name() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "moving-from-amazonsender.md").read_text()
    ours = {name: f"{alias.setting}: {alias.pair}" if alias.pair else alias.setting for name, alias in ALIASES.items()}
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| `([A-Za-z_: ]+)` \|$", guide, re.MULTILINE))
    assert listed == ours
    instead = dict(re.findall(r"^\| `([A-Z_]+)` \| (.+) \|$", guide, re.MULTILINE))
    assert {name: instead.get(name) for name in WITHOUT_EFFECT} == dict(WITHOUT_EFFECT)
    assert instead.keys() == ours.keys() | WITHOUT_EFFECT.keys()
    known = {field.alias for field in Settings.model_fields.values()} | {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    [same] = re.findall(r"^These names are the same:(.*?)\n\n", guide, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`([A-Z_]+)`", same)) <= known


def test_known_names_are_not_reported() -> None:
    names = [field.alias or "" for field in Settings.model_fields.values()]
    assert not list(find_unknown_settings(dict.fromkeys([*names, *ALIASES, "MAILWRIGHT_CONFIG"], "x")))
