"""Access tokens for SMTP and IMAP: aiosmtpd and an IMAP server accept them, and a token endpoint issues them."""

import asyncio
import json
from base64 import b64decode, urlsafe_b64decode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiosmtpd.handlers import Sink
from aiosmtpd.smtp import SMTP, AuthResult
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from structlog.testing import capture_logs

from mailwright.app.provider_test import check_providers
from mailwright.checks.installation import check
from mailwright.domain.clock import HOUR, MINUTE, SECOND, ManualClock, SystemClock
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.findings import Finding
from mailwright.domain.results import ErrorCategory, ResultKind
from mailwright.events.bounces import MailboxUnavailable
from mailwright.events.bounces.imap import ImapMailbox, ImapSettings
from mailwright.events.bounces.mailbox_url import parse_imap_url
from mailwright.ops.settings import load
from mailwright.providers.http import HttpClient
from mailwright.providers.oauth import OAuthSettings, OAuthTokens
from mailwright.providers.smtp.provider import Smtp
from mailwright.providers.smtp.url import parse_smtp_url
from mailwright.providers.tokens import TokenUnavailable
from tests.standins.http import EMPTY, HTML, Answer, HttpStandIn, Request, json_answer
from tests.standins.imap import USER, ImapServer
from tests.unit.providers.smtp_builders import PATIENT, a_mail

pytestmark = pytest.mark.promise("oauth-mail")
ADA = "ada@example.com"


class TokenEndpoint(HttpStandIn):
    """Issues `token-1`, `token-2` … for the right client."""

    def __init__(self, **answer: Any) -> None:
        super().__init__()
        self.forms: list[dict[str, str]] = []
        self._numbers = count(1)
        self._answer = {"token_type": "Bearer", "expires_in": 3600, **answer}

    def usual(self, request: Request) -> Answer:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.forms.append(form)
        if form.get("client_secret") != "client-secret":
            return json_answer(401, {"error": "invalid_client", "error_description": "AADSTS7000215: bad secret"})
        return json_answer(200, {**self._answer, "access_token": f"token-{next(self._numbers)}"})


class Mailbox(Sink):
    """An authenticator of aiosmtpd for XOAUTH2."""

    def __init__(self, *valid: str) -> None:
        self.valid = set(valid)
        self.given: list[str] = []

    async def auth_XOAUTH2(self, server: SMTP, words: list[str]) -> AuthResult:  # noqa: N802 - the name that it looks up
        text = b64decode(words[1]).decode()
        assert text.startswith(f"user={ADA}\x01auth=Bearer ")
        token = text.removeprefix(f"user={ADA}\x01auth=Bearer ").removesuffix("\x01\x01")
        self.given.append(token)
        if token in self.valid:
            return AuthResult(success=True)
        assert await server.challenge_auth('{"status":"400"}') == b""
        return AuthResult(success=False, handled=False)


@asynccontextmanager
async def an_smtp_server(handler: Mailbox) -> AsyncIterator[str]:
    def make() -> SMTP:
        return SMTP(handler, auth_require_tls=False, auth_exclude_mechanism=["PLAIN", "LOGIN"])

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    try:
        yield f"smtp://{ADA.replace('@', '%40')}@127.0.0.1:{server.sockets[0].getsockname()[1]}?tls=none&auth=xoauth2"
    finally:
        server.close()


@asynccontextmanager
async def tokens_of(
    endpoint: TokenEndpoint, clock: ManualClock | None = None, **changes: Any
) -> AsyncIterator[OAuthTokens]:
    settings = replace(OAuthSettings(endpoint.url + "/token", "client", "client-secret", None, "mail"), **changes)
    http = HttpClient()
    try:
        yield OAuthTokens(settings, http, clock or ManualClock())
    finally:
        await http.close()


async def test_one_token_serves_all_connections_until_it_expires() -> None:
    clock = ManualClock()
    async with TokenEndpoint() as endpoint, tokens_of(endpoint, clock) as tokens:
        assert set(await asyncio.gather(*(tokens.token() for _ in range(20)))) == {"token-1"}
        clock.advance(HOUR - 6 * MINUTE)
        assert await tokens.token() == "token-1"
        clock.advance(MINUTE)
        assert await tokens.token() == "token-2"
        tokens.forget("token-1")  # A late rejection of the earlier token.
        assert await tokens.token() == "token-2"
    client = {"client_id": "client", "client_secret": "client-secret"}
    assert endpoint.forms == 2 * [{"grant_type": "client_credentials", "scope": "mail", **client}]


async def test_refresh_token_is_used_and_renewed() -> None:
    async with TokenEndpoint(refresh_token="second") as endpoint, tokens_of(endpoint, refresh_token="first") as tokens:
        tokens.forget(await tokens.token())
        await tokens.token()
    assert [(form["grant_type"], form["refresh_token"]) for form in endpoint.forms] == [
        ("refresh_token", "first"),
        ("refresh_token", "second"),
    ]


@pytest.mark.parametrize(
    ("answer", "text", "is_configuration"),
    [
        (json_answer(400, {"error": "invalid_grant", "error_description": "expired"}), "sign in again", True),
        (json_answer(401, {"error": "invalid_client"}), "MAILWRIGHT_OAUTH_CLIENT_SECRET", True),
        (json_answer(400, {"error": "invalid_scope"}), "MAILWRIGHT_OAUTH_SCOPE", True),
        (json_answer(503, {"error": "temporarily_unavailable"}), "temporarily_unavailable", False),
        (json_answer(200, {"access_token": "two words"}), "no access token", True),
        (json_answer(200, {"access_token": "line\r\nbreak"}), "no access token", True),
        (Answer(500), "500", False),
        (HTML, "MAILWRIGHT_OAUTH_TOKEN_URL", True),
        (EMPTY, "no access token", True),
    ],
)
async def test_refused_token_names_the_cause(answer: Answer, text: str, is_configuration: bool) -> None:
    async with TokenEndpoint() as endpoint, tokens_of(endpoint, refresh_token="my-refresh-token") as tokens:
        endpoint.answer(answer)
        with pytest.raises(TokenUnavailable, match=text) as refusal:
            await tokens.token()
    assert refusal.value.is_configuration is is_configuration
    assert "my-refresh-token" not in str(refusal.value)
    assert "client-secret" not in str(refusal.value)


async def test_smtp_replaces_a_rejected_token_once() -> None:
    handler = Mailbox("token-2")
    async with TokenEndpoint() as endpoint, tokens_of(endpoint) as tokens, an_smtp_server(handler) as url:
        smtp = Smtp(replace(parse_smtp_url(url), tokens=tokens), timeouts=PATIENT, hostname="client.test")
        with capture_logs() as lines:
            result = await smtp.send(a_mail())
        assert result.kind is ResultKind.SENT, result
        assert handler.given == ["token-1", "token-2"]
        assert (await smtp.check()).summary.endswith(f"logged in as {ADA}, no pipelining")
        await smtp.close(SECOND)
        handler.valid, handler.given = set(), []
        smtp = Smtp(replace(parse_smtp_url(url), tokens=tokens), timeouts=PATIENT, hostname="client.test")
        result = await smtp.send(a_mail())
        assert (result.kind, result.code, result.category) == (
            ResultKind.FAILED,
            "SMTP_AUTH_FAILED",
            ErrorCategory.CONFIGURATION,
        )
        assert handler.given == ["token-2", "token-3"]
        await smtp.close(SECOND)
        assert "token-" not in str(lines) + str(result)


async def test_smtp_without_a_token_holds_messages() -> None:
    async with TokenEndpoint() as endpoint, an_smtp_server(Mailbox()) as url:
        for answer, kind, code in (
            (json_answer(400, {"error": "invalid_grant"}), ResultKind.FAILED, "SMTP_TOKEN_REFUSED"),
            (Answer(503), ResultKind.RETRYABLE, "SMTP_TOKEN_UNAVAILABLE"),
        ):
            endpoint.answer(answer, times=1)
            async with tokens_of(endpoint) as tokens:
                smtp = Smtp(replace(parse_smtp_url(url), tokens=tokens), timeouts=PATIENT, hostname="client.test")
                result = await smtp.send(a_mail())
                assert (result.kind, result.code, result.blames_provider) == (kind, code, True)
                assert result.definitely_not_sent
                await smtp.close(SECOND)


async def test_connection_test_covers_the_token() -> None:
    async with TokenEndpoint() as endpoint, an_smtp_server(Mailbox("token-1")) as url:
        given = {"oauth_token_url": endpoint.url, "oauth_client_id": "client", "provider": "smtp", "smtp_url": url}
        for secret, expected in (("client-secret", (True, None)), ("wrong", (False, "SMTP_TOKEN_REFUSED"))):
            [found] = await check_providers(load(**given, oauth_client_secret=secret), SystemClock())
            assert (found.is_ok, found.code) == expected, found
        assert "MAILWRIGHT_OAUTH_CLIENT_SECRET" in found.summary
        del given["oauth_token_url"]
        [found] = await check_providers(load(**given), SystemClock())
        assert found.summary.startswith("MAILWRIGHT_OAUTH_TOKEN_URL: is required")


@pytest.mark.parametrize("mechanism", ["XOAUTH2", "OAUTHBEARER"])
async def test_imap_replaces_a_rejected_token_once(mechanism: str) -> None:
    capabilities = f"IMAP4rev1 AUTH={mechanism} MOVE"
    server = ImapServer(is_encrypted=False, capabilities=capabilities, token="token-2")
    async with server, TokenEndpoint() as endpoint, tokens_of(endpoint) as tokens:
        server.put(b"a bounce")
        mailbox = ImapMailbox(ImapSettings("127.0.0.1", server.port, USER, is_encrypted=False, tokens=tokens))
        async with aclosing(mailbox.unread_emails()) as emails:
            assert [email.content async for email in emails] == [b"a bounce"]
        server.token = "revoked"
        with pytest.raises(MailboxUnavailable, match="does not accept the access token") as refusal:
            async with aclosing(mailbox.unread_emails()) as emails:
                await anext(emails)
        assert "token-" not in str(refusal.value)
        assert len(endpoint.forms) == 3


@pytest.mark.parametrize(
    ("parse", "url"),
    [
        (parse_smtp_url, "smtp://ada:secret@mail.example.com?auth=xoauth2"),
        (parse_smtp_url, "smtp://mail.example.com?auth=xoauth2"),
        (parse_smtp_url, "smtp://ada@mail.example.com?auth=magic"),
        (parse_imap_url, "imaps://ada:secret@mail.example.com/INBOX?auth=xoauth2"),
        (parse_imap_url, "imaps://ada@mail.example.com/INBOX?auth=magic"),
        (parse_imap_url, "imaps://ada@mail.example.com/INBOX"),
        (lambda url: OAuthSettings(url, "client", "secret"), "http://login.example.com/token"),
        (lambda url: OAuthSettings(url, "client"), "https://login.example.com/token"),
    ],
)
def test_contradictory_settings_are_refused(parse: Any, url: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refusal:
        parse(url)
    assert "secret@" not in str(refusal.value)


# Service accounts, and the check of the installation.


class GoogleEndpoint(HttpStandIn):
    """Issues `token-1` for a JWT that the service account has signed for Ada."""

    def __init__(self) -> None:
        super().__init__()
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.refuses = False

    @property
    def key_file(self) -> str:
        encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        pem = self.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain).decode()
        account = {"type": "service_account", "client_email": "sender@project.example.com", "private_key_id": "k1"}
        return json.dumps({**account, "private_key": pem, "token_uri": f"{self.url}/token"})

    def usual(self, request: Request) -> Answer:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        signed, _, signature = form["assertion"].rpartition(".")
        self.key.public_key().verify(_decoded(signature), signed.encode(), PKCS1v15(), SHA256())
        claims = json.loads(_decoded(signed.partition(".")[2]))
        assert (claims["iss"], claims["sub"]) == ("sender@project.example.com", USER)
        assert (claims["aud"], claims["scope"]) == (f"{self.url}/token", "https://mail.google.com/")
        assert 0 < claims["exp"] - claims["iat"] <= 3600
        if self.refuses:
            return json_answer(401, {"error": "unauthorized_client", "error_description": "not delegated"})
        return json_answer(200, {"token_type": "Bearer", "expires_in": 3600, "access_token": "token-1"})


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_check_signs_in_to_imap_with_service_account(tmp_path: Path) -> None:
    capabilities = "IMAP4rev1 AUTH=XOAUTH2"
    async with GoogleEndpoint() as google, ImapServer(is_encrypted=False, capabilities=capabilities) as server:
        server.token = "token-1"
        settings = load(
            database_url=f"sqlite:///{tmp_path}/none.db",
            bounce_mailbox=f"imap://{USER}@127.0.0.1:{server.port}/INBOX?auth=xoauth2",
            oauth_service_account=google.key_file,
        )

        async def found() -> Finding:
            [finding] = [each async for each in check(settings) if each.name == "bounce mailbox"]
            return finding

        assert "accepts an access token of this user" in (await found()).summary
        server.token = "another"
        assert "does not accept the access token" in (await found()).summary
        google.refuses = True
        assert "domain-wide delegation" in (await found()).summary


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"client_email": "a@b.c", "private_key": "secret-text"}'])
async def test_invalid_service_account_is_refused_without_quoting_it(text: str) -> None:
    settings = load(provider="smtp", smtp_url="smtp://a%40b.org@127.0.0.1?auth=xoauth2", oauth_service_account=text)
    [problem] = [each.summary for each in await check_providers(settings, SystemClock())]
    assert "MAILWRIGHT_OAUTH" in problem
    assert "secret-text" not in problem
