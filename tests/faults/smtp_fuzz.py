"""Clients that send any commands and bytes to the SMTP server: it replies correctly and stores what it confirmed."""

import asyncio
import re
from dataclasses import dataclass, field
from random import Random
from typing import Final

from sqlalchemy import func, select

from mailwright.domain.clock import SystemClock
from mailwright.storage.tables import messages
from tests.api import an_engine
from tests.faults.figures import Figures
from tests.faults.stage import Stage
from tests.submission import EMAIL, Submission, a_dialogue, a_submission, credentials

_REPLY_LINE: Final = re.compile(rb"[2345]\d\d[ -][\x20-\x7e]*\r\n")
_ACCEPTED: Final = re.compile(rb"^250[ -]2\.0\.0 Accepted: ([\w-]+)", re.MULTILINE)
# Ends the content and the connection in most states of the dialogue.
_ENDING: Final = b"\r\n.\r\nRSET\r\nQUIT\r\n"
_SIGN_IN: Final = "AUTH PLAIN {credentials}"
# Sequences that some servers accept as the end of data, and bytes that no email may contain.
_POISON: Final = (
    *(b"\n.\n", b"\r.\r", b"\r\n.\n", b"\n.\r\n", b"\r\n.\r", b"\r.\r\n", b"\n\n.\r\r\n"),
    *(b"\0", b"\r", b"\n", b"\xff\xfe", b"\r\n\0.\r\n", b"\r\n.\0\r\n", b"\r\n.\r\n\r\n.\r\n"),
)
_COMMANDS: Final = (
    *("EHLO app.example.com", "HELO app", "EHLO", "NOOP", "RSET", "HELP", "VRFY ada", "EXPN list", "STARTTLS", "QUIT"),
    *("MAIL FROM:<shop@example.com>", "MAIL FROM:<>", "MAIL FROM:<shop@example.com> SIZE=1", "MAIL FROM:shop", "MAIL"),
    *(
        "MAIL FROM:<a@example.com> BODY=8BITMIME SMTPUTF8",
        "MAIL FROM:<a@example.com> SIZE=99999999999",
        "MAIL from:<a@b.c>",
    ),
    *("RCPT TO:<ada@example.com>", "RCPT TO:<bob@example.com>", "RCPT TO:<bad>", "RCPT TO:<@a.example:b@example.com>"),
    *(
        "RCPT TO:<a@example.com> NOTIFY=NEVER",
        "RCPT",
        "DATA",
        "DATA x",
        "BDAT",
        "BDAT x",
        "BDAT -1",
        "BDAT 0 LAST",
        "BDAT 5",
    ),
    *(
        "AUTH",
        "AUTH LOGIN",
        "AUTH PLAIN",
        "AUTH PLAIN !",
        "AUTH PLAIN AGFwaWtleQBub25l",
        "AUTH CRAM-MD5",
        "*",
        _SIGN_IN,
    ),
)


@dataclass
class Fuzzed:
    """The number of clients, the ids that replies named, and the differences."""

    submission: Submission
    clients: int = 0
    accepted: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    async def check(self, script: bytes, *, pieces: int = 1) -> None:
        """Send a script, read all replies, and compare them with the outbox."""
        self.clients += 1
        before = await self._stored()
        heard, is_whole = await _talk(self.submission, script, pieces)
        lines = heard.splitlines(keepends=True)
        wrong = [line for line in lines if not _REPLY_LINE.fullmatch(line)]
        confirmed = {found.decode() for found in _ACCEPTED.findall(heard)}
        stored = await self._stored() - before
        has_difference = stored != confirmed if is_whole else not confirmed <= stored
        if has_difference or (is_whole and (wrong or not lines)):
            told = f"script {script!r}, replies {heard!r}, stored {stored}"
            self.problems.append(told[:4_000])
        self.accepted |= confirmed

    async def drop(self, script: bytes) -> None:
        """Send a script and vanish without reading. The server must still work."""
        self.clients += 1
        _, writer = await asyncio.open_connection("127.0.0.1", self.submission.port)
        writer.write(script)
        writer.transport.abort()
        await self.works()

    async def works(self) -> None:
        """Raise unless the server still accepts an ordinary email."""
        async with a_dialogue(self.submission) as client:
            await client.begin()
            reply = await client.ask(EMAIL + b".\r\n")
            assert reply.startswith("250 2.0.0 Accepted"), reply

    async def _stored(self) -> set[str]:
        async with self.submission.engine.database.read() as tx:
            return {row.outbox_id for row in await tx.execute(select(messages.c.outbox_id))}


async def _talk(submission: Submission, script: bytes, pieces: int) -> tuple[bytes, bool]:
    """Return the replies, and whether they are complete.

    A server that closes a connection of which it has not read everything resets it, and the last replies are lost.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", submission.port)
    size = max(len(script) // pieces, 1)
    heard: list[bytes] = []
    listening = asyncio.create_task(_listen(reader, heard))
    try:
        for start in range(0, len(script), size):
            writer.write(script[start : start + size])
            await writer.drain()
        while not listening.done():  # The script may have left the dialogue in any state; a chunk may be incomplete.
            writer.write(_ENDING)
            await writer.drain()
            await asyncio.wait([listening], timeout=0.2)
    except OSError:
        pass  # The server has closed the connection after an error; its replies can still be read.
    is_whole = await asyncio.wait_for(listening, 60)
    writer.close()
    return b"".join(heard), is_whole


async def _listen(reader: asyncio.StreamReader, heard: list[bytes]) -> bool:
    try:
        while part := await reader.read(65_536):
            heard.append(part)
    except OSError:
        return False
    return True


def a_script(random: Random, key: str) -> bytes:
    """Return bytes that a client could send: mostly correct, with mistakes of every kind."""
    parts = [b"EHLO app.example.com\r\n"] if random.random() < 0.9 else []
    if random.random() < 0.85:
        parts.append(_SIGN_IN.format(credentials=credentials("apikey", key)).encode() + b"\r\n")
    for _ in range(random.randint(1, 6)):
        parts.append(_transaction(random) if random.random() < 0.6 else _line(random, key))
    if random.random() < 0.3:
        parts.append(b"QUIT\r\n")
    script = b"".join(parts)
    if random.random() < 0.15:
        place = random.randrange(len(script) + 1)
        script = script[:place] + random.choice(_POISON) + script[place:]
    if random.random() < 0.15:
        script = script[: random.randrange(len(script) + 1)]
    return script or b"\r\n"


def _line(random: Random, key: str) -> bytes:
    if random.random() < 0.1:
        return random.randbytes(random.randint(1, 60)) + b"\r\n"
    command = random.choice(_COMMANDS).format(credentials=credentials("apikey", key)).encode()
    return command + (b"\r\n" if random.random() < 0.95 else random.choice((b"\n", b"\r", b"\r\r\n", b"\0\r\n")))


def _transaction(random: Random) -> bytes:
    recipients = b"".join(b"RCPT TO:<r%d@example.com>\r\n" % number for number in range(random.randint(0, 3)))
    envelope = b"MAIL FROM:<shop@example.com>\r\n" + recipients
    content = _content(random)
    if random.random() < 0.6:
        return envelope + b"DATA\r\n" + content + b"\r\n.\r\n"
    middle = random.randint(0, len(content))
    chunks = [content[:middle], content[middle:]]
    if random.random() < 0.15:
        return envelope + b"BDAT %d\r\n%b" % (len(chunks[0]), chunks[0]) + b"DATA\r\n" + content + b"\r\n.\r\n"
    return envelope + b"BDAT %d\r\n%bBDAT %d LAST\r\n%b" % (len(chunks[0]), chunks[0], len(chunks[1]), chunks[1])


def _content(random: Random) -> bytes:
    head = random.choice((b"From: shop@example.com\r\n", b"From: a@b.example\r\nFrom: c@d.example\r\n", b"", b"X\r\n"))
    if random.random() < 0.7:
        head = b"From: shop@example.com\r\nSubject: %d\r\n" % random.getrandbits(60)
    body = b"\r\n".join([b"Hello", b"..dots", b"MAIL FROM:<evil@example.com>"][: random.randint(0, 3)])
    if random.random() < 0.3:
        poison = random.choice(_POISON)
        body += poison + b"MAIL FROM:<evil@example.com>\r\nRCPT TO:<evil@example.com>\r\nDATA\r\nSubject: evil\r\n"
    return head + b"\r\n" + body + (b"\r\n" if random.random() < 0.7 else b"")


async def run(stage: Stage, *, scripts: int, seed: int = 20) -> Figures:
    """Send many random scripts, of which some end in the middle."""
    figures, random = Figures(), Random(seed)
    async with a_submission(an_engine(stage.database, SystemClock())) as submission:
        fuzzed = Fuzzed(submission)
        for _ in range(scripts * 4 // 5):
            script = a_script(random, submission.key)
            await fuzzed.check(script, pieces=random.choice((1, 1, 7, len(script))))
        for _ in range(scripts // 5):  # Afterwards, because their emails may be stored at any later time.
            script = a_script(random, submission.key)
            await fuzzed.drop(script[: random.randrange(len(script) + 1)])
        await fuzzed.works()
        async with stage.database.read() as tx:
            evil = select(func.count()).where(messages.c.to_email == "evil@example.com")
            smuggled = int((await tx.execute(evil))[0][0])
    figures.note("clients", fuzzed.clients)
    figures.note("accepted messages", len(fuzzed.accepted))
    figures.none("wrong replies, or 250 and outbox differ", fuzzed.problems)
    figures.expect("smuggled emails", smuggled, "0", when=smuggled == 0)
    return figures
