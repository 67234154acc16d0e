"""An IMAP server for tests with one account, a few folders and configurable failures.

async with ImapServer() as server:
    uid = server.put(content)
    server.fail("FETCH", Failure.CUT)
    ...
    assert server.flags(uid) == {"\\\\Seen"}
"""

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.standins.smtp_sink import Certificate, a_certificate

USER = "bounces"
PASSWORD = 'p"s\\ word ü'
UID_VALIDITY = 77


class Failure(Enum):
    CUT = auto()  # close the connection instead of a response
    REFUSE = auto()  # respond with NO
    HOLD = auto()  # never respond


@dataclass(slots=True)
class Kept:
    uid: int
    content: bytes
    folder: str = "INBOX"
    flags: set[str] = field(default_factory=set)


class ImapServer:
    def __init__(
        self,
        *,
        is_encrypted: bool = True,
        capabilities: str = "IMAP4rev1 AUTH=PLAIN MOVE",
        password: str = PASSWORD,
        token: str | None = None,  # If set, the access token that AUTHENTICATE XOAUTH2 and OAUTHBEARER need.
    ) -> None:
        self.token = token
        self.certificate: Certificate | None = a_certificate() if is_encrypted else None
        self.capabilities = capabilities
        self.password = password
        self.port = 0
        self.commands: list[str] = []  # without tags and secrets
        self.kept: list[Kept] = []
        self.reached = asyncio.Event()  # set when a command is held
        self._failures: dict[str, Failure] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, message: bytes, *flags: str) -> int:
        self.kept.append(Kept(len(self.kept) + 1, message, flags=set(flags)))
        return len(self.kept)

    def flags(self, uid: int) -> set[str]:
        return self.kept[uid - 1].flags

    def folder(self, uid: int) -> str:
        return self.kept[uid - 1].folder

    def fail(self, verb: str, failure: Failure) -> None:
        """Fail from the next such command on."""
        self._failures[verb] = failure

    def recover(self) -> None:
        self._failures.clear()

    async def __aenter__(self) -> "ImapServer":
        context = self.certificate.server_context() if self.certificate else None
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with _closing(writer):
                await self._converse(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            return

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"* OK [CAPABILITY {self.capabilities}] ready\r\n".encode())
        folder = "INBOX"
        while line := (await reader.readline()).decode():
            tag, verb, rest = re.match(r"(\S+) (?:UID )?(\S+) ?(.*)\r\n", line).groups()  # type: ignore[union-attr]
            self.commands.append(verb if verb in ("LOGIN", "AUTHENTICATE") else f"{verb} {rest}".strip())
            match self._failures.get(verb):
                case Failure.CUT:
                    return
                case Failure.REFUSE:
                    # Some servers repeat the credentials.
                    writer.write(f"{tag} NO not now: {rest} {self.password}\r\n".encode())
                    continue
                case Failure.HOLD:
                    self.reached.set()
                    await asyncio.Event().wait()
            match verb:
                case "CAPABILITY":
                    writer.write(f"* CAPABILITY {self.capabilities}\r\n".encode())
                case "LOGIN":
                    if rest != f'"{USER}" {_quoted(self.password)}':
                        writer.write(f"{tag} NO wrong: {rest}\r\n".encode())
                        continue
                case "AUTHENTICATE":
                    writer.write(b"+ \r\n")
                    given = b64decode(await reader.readline()).decode()
                    if rest in ("XOAUTH2", "OAUTHBEARER"):
                        user = f"user={USER}\x01" if rest == "XOAUTH2" else f"n,a={USER},\x01"
                        if not given.startswith(user) or f"\x01auth=Bearer {self.token}\x01\x01" not in given:
                            writer.write(b"+ eyJzdGF0dXMiOiI0MDAifQ==\r\n")
                            await reader.readline()
                            writer.write(f"{tag} NO AUTHENTICATE failed.\r\n".encode())
                            continue
                    elif given != f"\0{USER}\0{self.password}":
                        writer.write(f"{tag} NO wrong password\r\n".encode())
                        continue
                case "SELECT":
                    folder = rest.strip('"')
                    if folder != "INBOX":
                        writer.write(f"{tag} NO no such folder\r\n".encode())
                        continue
                    writer.write(f"* {len(self.kept)} EXISTS\r\n* OK [UIDVALIDITY {UID_VALIDITY}] ok\r\n".encode())
                case "SEARCH":
                    unwanted = {word: f"\\{word[2:].title()}" for word in rest.split()}  # UNSEEN, UNFLAGGED, …
                    found = [
                        str(each.uid)
                        for each in self.kept
                        if each.folder == folder and not each.flags.intersection(unwanted.values())
                    ]
                    writer.write(f"* SEARCH {' '.join(found)}\r\n".encode())
                case "FETCH":
                    self._fetch(writer, rest)
                case "STORE":
                    uid, flag = re.fullmatch(r"(\d+) \+FLAGS\.SILENT \((.*)\)", rest).groups()  # type: ignore[union-attr]
                    self.kept[int(uid) - 1].flags.add(flag)
                case "MOVE":
                    uid, goal = rest.split(" ", 1)
                    self.kept[int(uid) - 1].folder = goal.strip('"')
                case "LOGOUT":
                    writer.write(b"* BYE\r\n")
            writer.write(f"{tag} OK done\r\n".encode())
            await writer.drain()

    def _fetch(self, writer: asyncio.StreamWriter, rest: str) -> None:
        """Mark emails fetched without PEEK as seen, as the protocol requires."""
        uid, peek, size = re.fullmatch(r"(\d+) \(BODY(\.PEEK)?\[\]<0\.(\d+)>\)", rest).groups()  # type: ignore[union-attr]
        kept = next((each for each in self.kept if each.uid == int(uid) and each.folder == "INBOX"), None)
        if kept is None:
            return
        if not peek:
            kept.flags.add("\\Seen")
        piece = kept.content[: int(size)]
        writer.write(b"* %d FETCH (UID %d BODY[]<0> {%d}\r\n%b)\r\n" % (kept.uid, kept.uid, len(piece), piece))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
