"""Logs are JSON lines without secrets or complete addresses."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from mailwright.ops import logs


def scrubbed(**line: object) -> dict[str, object]:
    return dict(logs.scrub(None, "info", dict(line)))


@pytest.mark.parametrize("is_terminal", [False, True])
def test_only_terminals_get_coloured_lines(is_terminal: bool) -> None:
    program = (
        f"import sys; from mailwright.ops import logs; sys.stderr.isatty = lambda: {is_terminal}; "
        "logs.configure('INFO', 'console'); logs.logger('a').warning('hello')"
    )
    written = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
    assert ("\x1b[" in written, "hello" in written) == (is_terminal, True)


@pytest.mark.promise("logs-no-secret")
@pytest.mark.parametrize(
    "name", ["password", "smtp_password", "UNSUBSCRIBE_SECRET", "token", "Authorization", "api_key", "apiKey", "cookie"]
)
def test_secret_values_are_hidden(name: str) -> None:
    assert scrubbed(**{name: "hunter2"}) == {name: "***"}
    assert scrubbed(**{name: ["hunter2"]}) == {name: "***"}


@pytest.mark.promise("logs-no-secret")
def test_nested_secrets_are_hidden() -> None:
    line = scrubbed(request={"headers": {"Authorization": "Bearer x"}, "to": ["anna@example.com"]})
    assert line == {"request": {"headers": {"Authorization": "***"}, "to": ["a***@e***.com"]}}


@pytest.mark.promise("logs-no-secret")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("550 no anna@example.com here", "550 no a***@e***.com here"),
        ("<Anna.Smith+tag@mail.example.co.uk>", "<A***@m***.uk>"),
        ("имя@пример.рф", "и***@п***.рф"),
        ("a@localhost", "a***@l***"),
        ("no address at all", "no address at all"),
        ("12 @ 5", "12 @ 5"),
    ],
)
def test_addresses_in_a_text_are_masked(text: str, shown: str) -> None:
    assert scrubbed(reason=text) == {"reason": shown}


@pytest.mark.promise("logs-no-secret")
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mail:hunter2@db.example.com/mail",
        "smtp://user:hunter2@localhost:587",
        "redis://:hunter2@127.0.0.1/0",
        "smtp://user:hun@ter2@localhost",
        "smtp://user:hun/ter2@localhost",
        "smtp://user:hun:ter2@localhost",
    ],
)
def test_passwords_in_urls_are_hidden(url: str) -> None:
    shown = str(scrubbed(error=f"cannot reach {url} now")["error"])
    assert "ter2" not in shown
    assert "hun" not in shown
    assert shown.endswith(" now")


@pytest.mark.promise("logs-no-secret")
@given(local=st.from_regex(r"[a-z0-9+]{3,20}", fullmatch=True), domain=st.from_regex(r"[a-z]{3,20}", fullmatch=True))
def test_no_text_contains_a_complete_address(local: str, domain: str) -> None:
    shown = str(scrubbed(reason=f"({local}@{domain}.example)")["reason"])
    assert f"{local}@" not in shown
    assert f"@{domain}" not in shown


@pytest.mark.promise("logs-no-secret")
def test_long_line_is_scanned_once() -> None:
    """A quadratic search would take minutes for this."""
    text = "a" * 2_000_000
    assert scrubbed(reason=text) == {"reason": text}


@pytest.fixture
def settings_restored() -> Iterator[None]:
    """Restore the settings of other tests. New settings apply with the next line, so one is written first."""
    before = structlog.get_config()
    yield
    logs.configure("INFO", "console")
    logs.logger("here").info("restored")
    structlog.configure(**before)


@pytest.mark.usefixtures("settings_restored")
def test_line_is_one_json_object_with_ids(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("INFO", "json")
    logs.logger("here").info("message_settled", outboxId="1", requestId="r\n2", to="anna@example.com")
    logs.logger("here").debug("not shown")
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["event"], told["outboxId"], told["requestId"], told["to"]) == (
        "message_settled",
        "1",
        "r\n2",
        "a***@e***.com",
    )
    assert (told["level"], told["component"]) == ("info", "here")


@pytest.mark.usefixtures("settings_restored")
def test_lines_of_results_are_written_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("INFO", "json")
    lines = [{"outboxId": str(number), "requestId": "for anna@example.com"} for number in range(3)]
    logs.write_info("here", "message_settled", "2027-01-15T08:00:00.000Z", lines)
    logs.configure("WARNING", "json")
    logs.write_info("here", "message_settled", "2027-01-15T08:00:00.000Z", lines)
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["outboxId"] for each in told] == ["0", "1", "2"]
    assert {each["requestId"] for each in told} == {"for a***@e***.com"}
    assert (told[0]["level"], told[0]["component"], told[0]["timestamp"][:4]) == ("info", "here", "2027")


@pytest.mark.usefixtures("settings_restored")
def test_all_timestamps_have_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("INFO", "json")
    logs.logger("here").info("message_settled", state="FAILED")
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", json.loads(line)["timestamp"])


QUIET = """
import sys
from mailwright.ops import logs
logs.configure("ERROR", "json")
log = logs.logger("here")
log.info("not shown")
log.warning("not shown either", reason="none")
print("structlog" in sys.modules)
log.error("shown")
print("structlog" in sys.modules)
"""


def test_line_below_the_level_imports_nothing() -> None:
    """In a process of its own: others in this one have imported everything."""
    ended = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "True"]
    assert [json.loads(line)["event"] for line in ended.stderr.splitlines()] == ["shown"]
