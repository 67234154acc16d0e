"""Settings: the environment first, then the file, then a default; all that is wrong is told at once."""

from pathlib import Path

import pytest

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.settings import Settings, load


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for field in Settings.model_fields.values():
        monkeypatch.delenv(field.alias or "", raising=False)
    monkeypatch.chdir(tmp_path)


def problems(**overrides: object) -> list[str]:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(**overrides)
    return list(caught.value.problems)


@pytest.mark.promise("settings-all-errors")
def test_every_error_is_told_at_once_with_the_name_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "MAILWRIGHT_PORT": "70000",
        "MAILWRIGHT_TIMEZONE": "Mars/Olympus",
        "MAILWRIGHT_WORKING_HOURS": "18:00-09:00",
        "MAILWRIGHT_CONCURRENCY": "0",
        "MAILWRIGHT_PROVIDER": "pigeon",
        "MAILWRIGHT_RATE_PER_HOUR": "many",
        "UNSUBSCRIBE_SECRET": "short",
        "SHUTDOWN_GRACE_SECONDS": "-1",
    }
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    found = problems()
    assert sorted(problem.partition(":")[0] for problem in found) == sorted(wrong)
    assert "short" not in "\n".join(found)  # a secret is not shown, not even a bad one


@pytest.mark.promise("settings-all-errors")
def test_what_does_not_fit_together_is_told_too() -> None:
    found = problems(provider="smtp", dkim_selector="mail")
    assert [problem.split()[0].rstrip(":") for problem in found] == ["MAILWRIGHT_SMTP_URL", "MAILWRIGHT_DKIM_KEY_FILE"]


def test_the_environment_goes_before_the_file_and_the_file_before_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mailwright.toml").write_text("MAILWRIGHT_PORT = 1\nMAILWRIGHT_CONCURRENCY = 7\n")
    monkeypatch.setenv("MAILWRIGHT_PORT", "2")
    settings = load()
    assert (settings.port, settings.concurrency, settings.claim_batch) == (2, 7, 500)


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILWRIGHT_PORT", "")
    assert load().port == 8025


@pytest.mark.promise("settings-all-errors")
def test_a_name_that_nobody_knows_is_an_error_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "mailwright.toml").write_text("MAILWRIGHT_PROT = 1\n")
    assert [problem.partition(":")[0] for problem in problems()] == ["MAILWRIGHT_PROT"]


@pytest.mark.promise("settings-all-errors")
def test_a_file_that_cannot_be_read_is_an_error_and_not_a_default(tmp_path: Path) -> None:
    (tmp_path / "mailwright.toml").write_text("= broken")
    assert problems()


@pytest.mark.promise("logs-no-secret")
def test_settings_show_no_secret() -> None:
    settings = load(smtp_url="smtp://user:hunter2@localhost", unsubscribe_secret="hunter2-hunter2-hunter2")
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump_json()}"


def test_retired_secrets_stand_between_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSUBSCRIBE_RETIRED_SECRETS", f"{'a' * 16}, {'b' * 20},")
    settings = load()
    assert [each.get_secret_value() for each in settings.unsubscribe_retired_secrets] == ["a" * 16, "b" * 20]
    assert "aaa" not in f"{settings!r} {settings.model_dump_json()}"
    (problem,) = problems(unsubscribe_retired_secrets=f"{'a' * 16},short")
    assert problem == "UNSUBSCRIBE_RETIRED_SECRETS: each must have at least 16 characters"


@pytest.mark.promise("settings-all-errors")
@pytest.mark.parametrize("hours", ["9-18", "09:00-09:00", "25:00-26:00", "09:00 - 18:00", "24:00-24:00", ""])
def test_hours_that_are_none_are_refused(hours: str) -> None:
    (problem,) = problems(working_hours=hours)
    assert problem.startswith("MAILWRIGHT_WORKING_HOURS: must look like 09:00-18:00")


@pytest.mark.promise("settings-all-errors")
@pytest.mark.parametrize("level", ["debug", "Debug", "DEBUG"])
def test_a_level_of_logs_may_be_written_in_any_case(level: str) -> None:
    assert load(log_level=level).log_level == "DEBUG"
