"""Bounce mailboxes: an email is returned until it is done, from a maildir and over IMAP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.events.bounces import BounceMailbox, MailboxUnavailable, imap, open_mailbox
from mailwright.events.bounces.imap import ImapMailbox, ImapSettings
from mailwright.events.bounces.mailbox import MAX_READ_BYTES
from mailwright.events.bounces.mailbox_url import parse_imap_url
from tests.examples import examples
from tests.standins.imap import PASSWORD, UID_VALIDITY, USER, Failure, ImapServer

UNREADABLE = Path("/proc/self/mem")


async def take_all(mailbox: BounceMailbox) -> list[bytes]:
    """Read all emails without marking them as done."""
    async with aclosing(mailbox.unread_emails()) as emails:
        return [email.content async for email in emails]


async def handle_all(mailbox: BounceMailbox) -> list[bytes]:
    handled = []
    async with aclosing(mailbox.unread_emails()) as emails:
        async for email in emails:
            handled.append(email.content)
            await email.mark_done()
    return handled


# Maildir.


@pytest.fixture
def maildir(tmp_path: Path) -> Path:
    for part in ("tmp", "new", "cur"):
        (tmp_path / part).mkdir()
    return tmp_path


async def test_email_stays_in_maildir_until_done(maildir: Path) -> None:
    (maildir / "new" / "2.host").write_bytes(b"second")
    (maildir / "new" / "1.host").write_bytes(b"first")
    mailbox = open_mailbox(f"maildir:{maildir}")
    assert await take_all(mailbox) == [b"first", b"second"]
    assert await handle_all(mailbox) == [b"first", b"second"]
    assert await take_all(mailbox) == []
    assert sorted(file.name for file in (maildir / "cur").iterdir()) == ["1.host:2,S", "2.host:2,S"]


async def test_mark_done_twice_is_harmless_in_maildir(maildir: Path) -> None:
    (maildir / "new" / "1.host").write_bytes(b"mail")
    async with aclosing(open_mailbox(f"maildir:{maildir}").unread_emails()) as emails:
        email = await anext(emails)
        await email.mark_done()
        await email.mark_done()
    assert (maildir / "cur" / "1.host:2,S").read_bytes() == b"mail"


async def test_email_moved_by_another_process_is_skipped(maildir: Path) -> None:
    for name in ("1", "2", "3"):
        (maildir / "new" / name).write_bytes(name.encode())
    all_emails = []
    async with aclosing(open_mailbox(f"maildir:{maildir}").unread_emails()) as emails:
        async for email in emails:
            all_emails.append(email.content)
            (maildir / "new" / "2").unlink(missing_ok=True)
    assert all_emails == [b"1", b"3"]


async def test_folders_and_hidden_files_are_skipped(maildir: Path) -> None:
    (maildir / "new" / "folder").mkdir()
    (maildir / "new" / ".hidden").write_bytes(b"no")
    assert await take_all(open_mailbox(f"maildir:{maildir}")) == []


@pytest.mark.skipif(not UNREADABLE.exists(), reason="this system has no file that not even root can read")
async def test_unreadable_file_does_not_block_others(maildir: Path) -> None:
    (maildir / "new" / "1").symlink_to(UNREADABLE)
    (maildir / "new" / "2").write_bytes(b"open")
    assert await take_all(open_mailbox(f"maildir:{maildir}")) == [b"open"]


async def test_huge_email_is_read_up_to_limit(maildir: Path) -> None:
    (maildir / "new" / "1").write_bytes(b"x" * (MAX_READ_BYTES + 1))
    assert [len(message) for message in await take_all(open_mailbox(f"maildir:{maildir}"))] == [MAX_READ_BYTES]


async def test_missing_maildir_is_reported(tmp_path: Path) -> None:
    with pytest.raises(MailboxUnavailable, match="cannot be read"):
        await take_all(open_mailbox(f"maildir:{tmp_path / 'nowhere'}"))


# IMAP.


def mailbox_of(server: ImapServer, **options: str) -> BounceMailbox:
    assert server.certificate
    query = "&".join(
        f"{name}={quote(value)}" for name, value in {"ca": str(server.certificate.file), **options}.items()
    )
    return open_mailbox(f"imaps://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/INBOX?{query}")


async def test_email_stays_unseen_on_imap_until_done() -> None:
    async with ImapServer() as server:
        uids = [server.put(b"first\r\n)\r\n"), server.put(b"second"), server.put(b"old", "\\Seen")]
        mailbox = mailbox_of(server)
        assert await take_all(mailbox) == [b"first\r\n)\r\n", b"second"]
        assert [server.flags(uid) for uid in uids] == [set(), set(), {"\\Seen"}]
        assert await handle_all(mailbox) == [b"first\r\n)\r\n", b"second"]
        assert await take_all(mailbox) == []
        assert {server.folder(uid) for uid in uids} == {"INBOX"}


async def test_done_email_is_moved_to_configured_folder() -> None:
    async with ImapServer() as server:
        uid = server.put(b"mail")
        await handle_all(mailbox_of(server, move="Handled emails"))
        assert (server.flags(uid), server.folder(uid)) == ({"\\Seen"}, "Handled emails")


async def test_server_without_move_is_detected_early() -> None:
    async with ImapServer(capabilities="IMAP4rev1 AUTH=PLAIN") as server:
        uid = server.put(b"mail")
        with pytest.raises(MailboxUnavailable, match="cannot move"):
            await handle_all(mailbox_of(server, move="Handled"))
        assert server.flags(uid) == set()


async def test_server_without_auth_plain_uses_login() -> None:
    async with ImapServer(is_encrypted=False, capabilities="IMAP4rev1", password='a "quoted" \\ one') as server:
        server.put(b"mail")
        settings = ImapSettings("127.0.0.1", server.port, USER, server.password, is_encrypted=False)
        assert await take_all(ImapMailbox(settings)) == [b"mail"]
        assert "LOGIN" in server.commands


@pytest.mark.parametrize("capabilities", ["IMAP4rev1", "IMAP4rev1 AUTH=PLAIN"])
@pytest.mark.parametrize("password", ["wrong", "wrong and ü"])
async def test_wrong_password_is_not_printed(capabilities: str, password: str) -> None:
    async with ImapServer(is_encrypted=False, capabilities=capabilities) as server:
        settings = ImapSettings("127.0.0.1", server.port, USER, password, is_encrypted=False)
        with pytest.raises(MailboxUnavailable, match="log in") as raised:
            await take_all(ImapMailbox(settings))
        assert "wrong" not in str(raised.value)


async def test_identity_does_not_contain_the_account() -> None:
    async with ImapServer() as server:
        server.put(b"mail")
        async with aclosing(mailbox_of(server).unread_emails()) as emails:
            assert (await anext(emails)).identity == f"INBOX/{UID_VALIDITY}/1"


async def test_only_start_of_huge_email_is_fetched() -> None:
    async with ImapServer() as server:
        server.put(b"x" * (MAX_READ_BYTES + 1))
        assert [len(message) for message in await take_all(mailbox_of(server))] == [MAX_READ_BYTES]


@pytest.mark.parametrize("failure", [Failure.CUT, Failure.REFUSE])
@pytest.mark.parametrize("verb", ["CAPABILITY", "AUTHENTICATE", "SELECT", "SEARCH", "FETCH", "STORE"])
async def test_failing_server_loses_no_email_and_leaks_nothing(verb: str, failure: Failure) -> None:
    async with ImapServer() as server:
        uid = server.put(b"mail")
        server.fail(verb, failure)
        with pytest.raises(MailboxUnavailable) as raised:
            await handle_all(mailbox_of(server))
        assert PASSWORD not in str(raised.value)
        assert raised.value.__cause__ is None
        assert server.flags(uid) == set()
        server.recover()
        assert await handle_all(mailbox_of(server)) == [b"mail"]


async def test_vanished_email_is_skipped() -> None:
    async with ImapServer() as server:
        server.put(b"first")
        second = server.put(b"second")
        all_emails = []
        async with aclosing(mailbox_of(server).unread_emails()) as emails:
            async for email in emails:
                all_emails.append(email.content)
                server.kept[second - 1].folder = "elsewhere"
        assert all_emails == [b"first"]


async def test_mark_done_after_close_fails_and_email_returns() -> None:
    async with ImapServer() as server:
        server.put(b"mail")
        async with aclosing(mailbox_of(server).unread_emails()) as emails:
            late = await anext(emails)
        with pytest.raises(MailboxUnavailable):
            await late.mark_done()
        assert await take_all(mailbox_of(server)) == [b"mail"]


async def test_untrusted_certificate_is_rejected() -> None:
    async with ImapServer() as server:
        settings = ImapSettings("127.0.0.1", server.port, USER, PASSWORD)
        with pytest.raises(MailboxUnavailable, match="connect"):
            await take_all(ImapMailbox(settings))
        assert server.commands == []


async def test_unreachable_server_is_unavailable() -> None:
    async with ImapServer() as server:
        mailbox = mailbox_of(server)
    with pytest.raises(MailboxUnavailable, match="connect"):
        await take_all(mailbox)


async def test_silent_server_times_out() -> None:
    async with ImapServer() as server:
        assert server.certificate
        server.put(b"mail")
        server.fail("FETCH", Failure.HOLD)
        ca = server.certificate.file
        settings = ImapSettings("127.0.0.1", server.port, USER, PASSWORD, ca=ca, timeout_seconds=0.2)
        with pytest.raises(MailboxUnavailable):
            await take_all(ImapMailbox(settings))


async def test_cancelled_pass_ends_at_once() -> None:
    async with ImapServer() as server:
        server.put(b"mail")
        server.fail("FETCH", Failure.HOLD)
        waiting = asyncio.create_task(take_all(mailbox_of(server)))
        await server.reached.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(waiting, 10)


# Mailbox URLs.


def test_imap_url_is_parsed_completely() -> None:
    settings = parse_imap_url("imaps://a%40example.com:p%2Fw@mail.example.com/Bounces%20in?move=Done")
    assert settings == ImapSettings("mail.example.com", 993, "a@example.com", "p/w", "Bounces in", move_to="Done")
    assert "p/w" not in repr(settings)


def test_inbox_is_the_default_folder() -> None:
    assert parse_imap_url("imaps://a:b@mail.example.com").folder == "INBOX"


@pytest.mark.parametrize("written", ["maildir:/var/mail/x", "maildir:///var/mail/x", "maildir:/var/mail/%78"])
def test_maildir_url_forms_are_equivalent(written: str) -> None:
    assert vars(open_mailbox(written)) == vars(open_mailbox("maildir:/var/mail/x"))


@pytest.mark.parametrize(
    "url",
    [
        "maildir:",
        "pop3://a:secret@example.com",
        "imaps://example.com/INBOX",
        "imaps://a:secret@/INBOX",
        "imaps://a:secret@example.com:port/INBOX",
        "imaps://a:sec/ret@example.com/INBOX",
        "imaps://a:secret@example.com/INBOX#part",
        "imaps://a:secret@example.com/INBOX?delete=yes",
        "imaps://a:secret@example.com/INBOX?move=",
        "imaps://a:secret@example.com/INBOX?move=A&move=B",
        "imaps://a:secret%0d%0a@example.com/INBOX",
        "imaps://a:secret%ff@example.com/INBOX",
        "imaps://a:secret@example.com/Gel%C3%B6scht",
        "imaps://a:secret@example.com/INBOX?move=A%0D%0AB",
        "imap://a:secret@example.com/INBOX",
        "imaps://a: secret@example.com/INBOX",
    ],
)
def test_invalid_url_is_rejected_without_printing_password(url: str) -> None:
    with pytest.raises(ConfigurationInvalid) as raised:
        open_mailbox(url)
    assert "sec" not in str(raised.value)
    assert raised.value.__cause__ is None


# Servers that respond with anything.


@asynccontextmanager
async def a_server_that_responds(verb: str, response: bytes) -> AsyncIterator[ImapMailbox]:
    """Return a mailbox whose server responds to one command, or to the connection, with these bytes."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(response if verb == "CONNECT" else b"* OK [CAPABILITY IMAP4rev1 MOVE] ready\r\n")
            while line := await reader.readline():
                tag, given = line.split()[0], line.upper()
                if verb.encode() in given:
                    writer.write(response.replace(b"TAG", tag))
                    continue
                found = b"* SEARCH 1\r\n" if b"SEARCH" in given else b""
                found += b"* 1 FETCH (UID 1 BODY[]<0> {5}\r\nhello)\r\n" if b"FETCH" in given else b""
                writer.write(found + tag + b" OK done\r\n")
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = ImapSettings("127.0.0.1", port, "bounces", "secret", is_encrypted=False, timeout_seconds=0.5)
    try:
        yield ImapMailbox(settings)
    finally:
        server.close()


VERBS = ("CONNECT", "LOGIN", "SELECT", "SEARCH", "FETCH", "STORE")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "response",
    [
        b"* 1 FETCH (UID 1 BODY[]<0> {99999999999999}\r\nhello)\r\nTAG OK\r\n",
        b"* 1 FETCH (UID 1 BODY[]<0> {99999999999999999999999999}\r\nhello)\r\nTAG OK\r\n",
        b"* OK {4000000000}\r\n",
        b"* 1 EXISTS\r\n" * 200_000 + b"TAG OK\r\n",
    ],
    ids=["terabytes", "no number", "gigabytes", "many"],
)
async def test_server_cannot_make_the_reader_use_much_memory(
    verb: str, response: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imap, "MAX_RESPONSE_BYTES", 1_000_000)
    async with a_server_that_responds(verb, response) as mailbox:
        with pytest.raises(MailboxUnavailable):
            await handle_all(mailbox)


async def test_too_long_response_is_named_as_the_cause() -> None:
    async with a_server_that_responds("FETCH", b"* 1 FETCH (UID 1 BODY[]<0> {4000000000}\r\n") as mailbox:
        with pytest.raises(MailboxUnavailable, match=r"fetch an email .* the server's response is too long"):
            await handle_all(mailbox)


PIECES = (
    b"TAG ",
    b"* ",
    b"+ ",
    b"OK",
    b"NO",
    b"BYE",
    b"1 FETCH (",
    b"BODY[]",
    b"{5}\r\n",
    b"{-1}\r\n",
    b"SEARCH 1",
    b")",
)
RESPONSES = st.lists(st.sampled_from([*PIECES, b"\r\n", b"\r\n", b" "]) | st.binary(max_size=4), max_size=12)


@pytest.mark.parametrize("verb", VERBS)
@hypothesis_settings(deadline=None, max_examples=examples(10))
@given(pieces=RESPONSES)
async def test_any_response_is_read_or_makes_the_mailbox_unavailable(verb: str, pieces: list[bytes]) -> None:
    async with a_server_that_responds(verb, b"".join(pieces) + b"\r\nTAG OK\r\n") as mailbox:
        with suppress(MailboxUnavailable):
            assert all(isinstance(content, bytes) for content in await handle_all(mailbox))
