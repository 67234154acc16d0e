"""The settings of the SMTP server: a password is never sent unencrypted over a network."""

from pathlib import Path

import pytest

from mailwright.app.submission import open_submission
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.sources.api.raw import Envelope
from mailwright.sources.smtp.session import SubmissionSession
from mailwright.sources.smtp.steps import Client
from tests.builders import settings_for
from tests.submission import a_certificate, credentials

URL = "sqlite:///unused.db"


def test_smtp_is_off_by_default() -> None:
    assert open_submission(settings_for(URL)) is None


@pytest.mark.promise("smtp-no-relay")
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"smtp_listen": "0.0.0.0:0"}, "MAILWRIGHT_SMTP_CERTIFICATE_FILE"),
        ({"smtp_listen": "[::]:0"}, "MAILWRIGHT_SMTP_CERTIFICATE_FILE"),
        ({"smtp_listen_tls": "127.0.0.1:0"}, "MAILWRIGHT_SMTP_KEY_FILE"),
        ({"smtp_listen": "127.0.0.1:0", "smtp_key_file": Path("key.pem")}, "set both"),
        ({"smtp_listen": "2525"}, "host:port"),
        ({"smtp_listen": "127.0.0.1:http"}, "host:port"),
        (
            {"smtp_listen": "127.0.0.1:0", "smtp_key_file": Path("no.pem"), "smtp_certificate_file": Path("no.pem")},
            "No such file",
        ),
    ],
)
def test_unsafe_or_incomplete_settings_are_refused(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=named):
        open_submission(settings_for(URL, **changes))


def test_certificate_allows_other_addresses(tmp_path: Path) -> None:
    certificate, key = a_certificate(tmp_path)
    files = {"smtp_certificate_file": certificate, "smtp_key_file": key}
    sockets = open_submission(settings_for(URL, smtp_listen="0.0.0.0:0", smtp_listen_tls="127.0.0.1:0", **files))
    assert sockets is not None
    assert list(sockets.listeners.values()) == [False, True]
    for listener in sockets.listeners:
        listener.close()


class NoSubmitter:
    """A server that no session of these tests reaches."""

    max_bytes = 1_000

    async def sign_in(self, user: str, key: str, address: str) -> None:
        raise AssertionError

    async def submit(self, client: Client, envelope: Envelope, content: bytes) -> bytes:
        raise AssertionError


@pytest.mark.promise("smtp-no-relay")
def test_remote_client_cannot_sign_in_before_encryption() -> None:
    who = {"request_id": "1", "name": "mail", "address": "192.0.2.1"}
    session = SubmissionSession(NoSubmitter(), **who, can_start_tls=True, needs_tls=True)
    offered = session.execute("EHLO me").reply
    assert b"STARTTLS" in offered
    assert b"AUTH" not in offered
    for command in (f"AUTH PLAIN {credentials('apikey', 'mw_x')}", "AUTH LOGIN"):
        step = session.execute(command)
        assert (step.reply[:10], step.work) == (b"538 5.7.11", None)
    assert session.execute("MAIL FROM:<a@example.com>").reply.startswith(b"530")
