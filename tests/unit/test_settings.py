"""Settings come from the environment, then the file, then the defaults; all errors are reported at once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from mailwright.app.verify import verify
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops import release_files
from mailwright.ops.secret_files import file_variables
from mailwright.ops.settings import Settings, http_address, load
from mailwright.ops.unknown_settings import find_unknown_settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for field in Settings.model_fields.values():
        monkeypatch.delenv(field.alias or "", raising=False)
        monkeypatch.delenv(f"{field.alias}_FILE", raising=False)
    monkeypatch.chdir(tmp_path)


def problems(**overrides: object) -> list[str]:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(**overrides)
    return list(caught.value.problems)


@pytest.mark.promise("settings-all-errors")
def test_all_errors_are_reported_with_their_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    invalid = {
        "MAILWRIGHT_PORT": "70000",
        "MAILWRIGHT_TIMEZONE": "Mars/Olympus",
        "MAILWRIGHT_WORKING_HOURS": "9 to 18",
        "MAILWRIGHT_CONCURRENCY": "0",
        "MAILWRIGHT_PROVIDER": "pigeon",
        "MAILWRIGHT_RATE_PER_HOUR": "many",
        "UNSUBSCRIBE_SECRET": "short",
        "SHUTDOWN_GRACE_SECONDS": "-1",
    }
    for name, value in invalid.items():
        monkeypatch.setenv(name, value)
    found = problems()
    assert sorted(problem.partition(":")[0] for problem in found) == sorted(invalid)
    assert "short" not in "\n".join(found)  # A secret is never shown, not even an invalid one.


@pytest.mark.promise("settings-all-errors")
def test_settings_that_depend_on_each_other_are_checked() -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        verify(load(provider="smtp", dkim_selector="mail"))
    found = refused.value.problems
    assert [problem.split()[0].rstrip(":") for problem in found] == ["MAILWRIGHT_DKIM_KEY_FILE,", "MAILWRIGHT_SMTP_URL"]


def test_environment_overrides_file_and_file_overrides_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mailwright.toml").write_text("MAILWRIGHT_PORT = 1\nMAILWRIGHT_CONCURRENCY = 7\n")
    monkeypatch.setenv("MAILWRIGHT_PORT", "2")
    settings = load()
    assert (settings.port, settings.concurrency, settings.claim_batch) == (2, 7, 500)


def test_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILWRIGHT_PORT", "")
    assert load().port == 8025


@pytest.mark.promise("settings-all-errors")
def test_unknown_name_in_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mailwright.toml").write_text("MAILWRIGHT_PROT = 1\n")
    assert problems() == ["MAILWRIGHT_PROT: unknown setting; check the spelling"]


def test_error_names_last_release_of_a_removed_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_files, "FOLDER", tmp_path)
    for release in ("0.2.0", "0.10.0"):
        (tmp_path / f"{release}.json").write_text('{"MAILWRIGHT_PROT": 1}')
    (tmp_path / "mailwright.toml").write_text("MAILWRIGHT_PROT = 1\n")
    assert problems() == ["MAILWRIGHT_PROT: was a setting until 0.10.0; remove it"]


@pytest.mark.promise("settings-all-errors")
def test_invalid_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mailwright.toml").write_text("= broken")
    assert problems()


@pytest.mark.promise("logs-no-secret")
def test_settings_show_no_secret() -> None:
    settings = load(smtp_url="smtp://user:hunter2@localhost", unsubscribe_secret="hunter2-hunter2-hunter2")
    assert "hunter2" not in f"{settings!r} {settings} {settings.model_dump_json()}"


def test_retired_secrets_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSUBSCRIBE_RETIRED_SECRETS", f"{'a' * 16}, {'b' * 20},")
    settings = load()
    assert [secret.get_secret_value() for secret in settings.unsubscribe_retired_secrets] == ["a" * 16, "b" * 20]
    assert "aaa" not in f"{settings!r} {settings.model_dump_json()}"
    (problem,) = problems(unsubscribe_retired_secrets=f"{'a' * 16},short")
    assert problem == "UNSUBSCRIBE_RETIRED_SECRETS: use at least 16 characters for each"


@pytest.mark.promise("settings-all-errors")
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:8025"),
        ("::", "http://[::1]:8025"),
        ("::1", "http://[::1]:8025"),
        ("10.0.0.5", "http://10.0.0.5:8025"),
    ],
)
def test_address_of_a_server_can_be_opened(host: str, address: str) -> None:
    assert http_address(host, 8025) == address


@pytest.mark.parametrize(
    "hours", ["9-18", "09:00-09:00", "25:00-26:00", "09:00 - 18:00", "24:00-24:00", "Mo 09:00-18:00", ""]
)
def test_invalid_working_hours_are_refused(hours: str) -> None:
    (problem,) = problems(working_hours=hours)
    assert problem.startswith("MAILWRIGHT_WORKING_HOURS: ")
    assert "opening and closing times" in problem


@pytest.mark.promise("settings-all-errors")
@pytest.mark.parametrize(
    "url", ["mail.example.com", "ftp://mail.example.com", "https://", "javascript:1", "http://[::1"]
)
@pytest.mark.parametrize("name", ["base_url", "unsubscribe_base_url", "notify_base_url"])
def test_public_url_needs_a_scheme_and_a_host(name: str, url: str) -> None:
    (problem,) = problems(**{name: url})
    assert problem.endswith("must begin with http:// or https:// and name a host, such as https://mail.example.com")
    assert load(**{name: "http://127.0.0.1:8025/mail"})


@pytest.mark.promise("settings-all-errors")
@pytest.mark.parametrize("level", ["debug", "Debug", "DEBUG"])
def test_log_level_is_case_insensitive(level: str) -> None:
    assert load(log_level=level).log_level == "DEBUG"


SECRETS = sorted(file_variables(Settings.model_fields).values())


def test_every_secret_setting_has_a_file_variable() -> None:
    secret = [
        str(field.alias)
        for field in Settings.model_fields.values()
        if "SecretStr" in str(field.annotation) or "password@" in str(field.description)
    ]
    known = {*SECRETS, "MAILWRIGHT_SECRET_KEY_FILE", "MAILWRIGHT_DKIM_KEY_FILE"}
    assert len(secret) > 8
    assert [name for name in secret if f"{name}_FILE" not in known] == []


@pytest.mark.promise("secrets-encrypted")
@pytest.mark.parametrize("variable", SECRETS)
def test_every_secret_can_come_from_a_file(variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    value = "smtp://user:hunter2-hunter2@mail.example.com:587"
    (tmp_path / "secret").write_text(f"{value}\n")
    monkeypatch.setenv(variable, str(tmp_path / "secret"))
    settings = load()
    (name,) = (name for name, field in Settings.model_fields.items() if field.alias == variable.removesuffix("_FILE"))
    given = getattr(settings, name)
    shown = [one.get_secret_value() if isinstance(one, SecretStr) else one for one in _each(given)]
    assert shown == [value]
    assert list(find_unknown_settings({variable: "x"})) == []


def _each(given: object) -> tuple[object, ...]:
    return given if isinstance(given, tuple) else (given,)


@pytest.mark.promise("secrets-encrypted")
@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda file: None, "does not exist"),
        (lambda file: file.mkdir(), "cannot be read: Is a directory"),
        (lambda file: file.write_bytes(b"\xff\xfe"), "is not UTF-8 text"),
        (lambda file: file.write_text("\n"), "is empty"),
        (lambda file: file.write_text("x" * 70_000), "is larger than 64 KB; it must contain the value only"),
    ],
    ids=["missing", "folder", "binary", "empty", "large"],
)
def test_unusable_secret_file_is_reported_with_all_errors(
    make: Callable[[Path], object], problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    make(file)
    monkeypatch.setenv("SENDGRID_API_KEY_FILE", str(file))
    assert problems() == [f"SENDGRID_API_KEY_FILE: the file {file} {problem}"]
    assert len(problems(port=-1)) == 2


@pytest.mark.promise("secrets-encrypted")
@pytest.mark.parametrize("variable", SECRETS)
def test_wrong_secret_file_is_named_without_its_content(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    monkeypatch.setenv(variable, str(file))
    assert problems() == [f"{variable}: the file {file} does not exist"]
    file.write_bytes(b"hunter2-hunter2\xff")
    assert problems() == [f"{variable}: the file {file} is not UTF-8 text"]
    file.write_text("hunter2-hunter2")
    setting = variable.removesuffix("_FILE")
    monkeypatch.setenv(setting, "smtp://user:hunter3-hunter3@mail.example.com:587")
    assert problems() == [f"{variable}: {setting} is set too; remove one of them"]


def test_secret_file_overrides_the_configuration_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mailwright.toml").write_text('sendgrid_api_key = "from-toml"\n')
    (tmp_path / "secret").write_text("from-secret")
    monkeypatch.setenv("SENDGRID_API_KEY_FILE", str(tmp_path / "secret"))
    key = load().sendgrid_api_key
    assert key is not None
    assert key.get_secret_value() == "from-secret"


def test_configured_key_file_keeps_its_own_meaning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is created on first use, so it may be missing."""
    monkeypatch.setenv("MAILWRIGHT_SECRET_KEY_FILE", str(tmp_path / "new.key"))
    settings = load()
    assert (settings.secret_key, settings.secret_key_file) == (None, tmp_path / "new.key")


@pytest.mark.parametrize(
    "setting", ["MAILWRIGHT_NOTIFY_DATABASE_URL", "MAILWRIGHT_OUTBOX_DATABASE_URL", "MAILWRIGHT_PROFILES_URL"]
)
def test_addresses_of_other_databases_are_verified(setting: str) -> None:
    settings = Settings.model_validate({setting: "postgresql://db.example.com/shop?sslmod=require"})
    with pytest.raises(ConfigurationInvalid) as refused:
        verify(settings)
    assert f"{setting}: the parameter sslmod is unknown; did you mean sslmode?" in refused.value.problems
