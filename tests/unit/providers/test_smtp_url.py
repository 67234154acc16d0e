"""The SMTP URL: safe defaults, and errors that never show the password."""

from pathlib import Path

import pytest

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.providers.smtp.provider import Smtp
from mailwright.providers.smtp.settings import Purpose, Tls
from mailwright.providers.smtp.url import parse_smtp_url


@pytest.mark.parametrize(
    ("url", "host", "port", "tls"),
    [
        ("smtp://mail.example.com:587", "mail.example.com", 587, Tls.STARTTLS),
        ("smtp://mail.example.com", "mail.example.com", 587, Tls.STARTTLS),
        ("smtp://mail.example.com:2525", "mail.example.com", 2525, Tls.STARTTLS),
        ("smtp://mail.example.com:465", "mail.example.com", 465, Tls.TLS),
        ("smtps://mail.example.com", "mail.example.com", 465, Tls.TLS),
        ("smtps://mail.example.com:8465", "mail.example.com", 8465, Tls.TLS),
        ("smtp://mail.example.com:25?tls=none", "mail.example.com", 25, Tls.NONE),
        ("smtp://localhost", "localhost", 25, Tls.NONE),
        ("smtp://127.0.0.1:1025/", "127.0.0.1", 1025, Tls.NONE),
        ("smtp://[::1]:1025", "::1", 1025, Tls.NONE),
        ("smtp://127.0.0.1:587", "127.0.0.1", 587, Tls.STARTTLS),
        ("smtp://localhost:1025?tls=tls", "localhost", 1025, Tls.TLS),
    ],
)
def test_connection_is_encrypted_by_default_except_on_loopback(url: str, host: str, port: int, tls: Tls) -> None:
    settings = parse_smtp_url(url)
    assert (settings.host, settings.port, settings.tls) == (host, port, tls)


def test_credentials_are_percent_decoded() -> None:
    settings = parse_smtp_url("smtp://me%40example.com:p%2Fw%3A%C3%BC%25@mail.example.com")
    assert (settings.user, settings.password) == ("me@example.com", "p/w:ü%")


def test_options_are_parsed() -> None:
    settings = parse_smtp_url("smtp://localhost?ca=/etc/ca.pem&connections=3&messages=50")
    assert settings.ca == Path("/etc/ca.pem")
    assert (settings.connections, settings.messages_per_connection) == (3, 50)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("http://mail.example.com", "smtp://"),
        ("mail.example.com:25", "smtp://"),
        ("smtp://", "host"),
        ("smtp://user:Hunter2@", "host"),
        ("smtp://user:Hunter2@host:port", "port"),
        ("smtp://host:0", "port"),
        ("smtp://host:70000", "port"),
        ("smtp://[::1:25", "brackets"),
        ("smtp://user:Hunter2@host/inbox", "path"),
        ("smtp://host?tls=yes", "none, starttls or tls"),
        ("smtp://host?tsl=none", "tsl"),
        ("smtp://host?connections=0", "connections=0"),
        ("smtp://host?connections=many", "connections=many"),
        ("smtp://host?messages=-1", "messages=-1"),
        ("smtp://host?ca=", "PEM"),
        ("smtp://host?tls=tls&tls=none", "twice"),
        ("smtps://host?tls=starttls", "contradicts"),
        ("smtp://user@host", "password"),
        ("smtp://user:Hunter2@host:25?tls=none", "unencrypted"),
        ("smtp://user:Hunter2/x@host", "percent-encoded"),
        ("smtp://user:Hunter2?x@host", "percent-encoded"),
        ("smtp://user:Hunter2#x@host", "percent-encoded"),
        ("smtp://user:Hunter2%00@host", "NUL"),
        ("smtp://user:Hunter2%ff@host", "UTF-8"),
        ("smtp://user:Hunter2\r\n@host", "control characters"),
    ],
)
def test_error_names_the_problem_without_the_password(url: str, named: str) -> None:
    with pytest.raises(ConfigurationInvalid) as error:
        parse_smtp_url(url)
    assert named in str(error.value)
    assert "Hunter2" not in str(error.value)
    assert "Hunter2" not in str(error.value.__cause__)


def test_settings_hide_the_password() -> None:
    assert "Hunter2" not in repr(parse_smtp_url("smtp://user:Hunter2@localhost"))


def test_unreadable_certificate_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"missing\.pem"):
        Smtp(parse_smtp_url(f"smtp://localhost?tls=tls&ca={tmp_path}/missing.pem"))


def test_purpose_marks_a_server_that_collects_test_email() -> None:
    assert parse_smtp_url("smtp://localhost:1025?purpose=test").purpose is Purpose.TEST
    assert parse_smtp_url("smtp://localhost:1025").purpose is None
    with pytest.raises(ConfigurationInvalid, match="purpose=live in the SMTP URL: it must be test, or left out"):
        parse_smtp_url("smtp://localhost:1025?purpose=live")
