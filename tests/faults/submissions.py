"""The SMTP server is killed while clients submit: each 250 is in the outbox, and nothing else is."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field

import orjson

from tests.faults.books import standing
from tests.faults.figures import Figures
from tests.faults.processes import Process
from tests.faults.stage import Stage
from tests.submission import Dialogue


@dataclass
class Server:
    """The running SMTP server, which is started again after each kill."""

    stage: Stage
    process: Process | None = None
    port: int = 0
    is_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        self.process = self.stage.start("smtp", ["smtp"], MAILWRIGHT_SMTP_LISTEN="127.0.0.1:0")
        await self.process.says("smtp_started")
        line = next(line for line in self.process.said.splitlines() if "smtp_started" in line)
        self.port = int(orjson.loads(line)["addresses"][0].rpartition(":")[2])
        self.is_up.set()

    def kill(self) -> None:
        self.is_up.clear()
        assert self.process is not None
        self.process.kill()


async def run(stage: Stage, *, kills: int, emails: int, clients: int = 8) -> Figures:
    """Clients repeat an email whose reply was lost, as mail servers do."""
    figures, server, key = Figures(), Server(stage), await stage.credential()
    accepted: dict[int, str] = {}
    await server.start()

    async def kill_repeatedly() -> None:
        for number in range(1, kills + 1):
            while len(accepted) < number * emails // (kills + 1):
                await asyncio.sleep(0)
            server.kill()
            await server.start()

    submitting = (_submit(server, key, range(index, emails, clients), accepted) for index in range(clients))
    await asyncio.gather(kill_repeatedly(), *submitting)
    server.kill()
    stored = set(await standing(stage))
    figures.note("kills", kills)
    figures.expect("emails with 250", len(accepted), f"{emails}", when=len(accepted) == emails)
    figures.none("250 and not in the outbox", sorted(set(accepted.values()) - stored))
    figures.none("in the outbox without 250", sorted(stored - set(accepted.values())))
    figures.expect("audit identity", await stage.identity_holds(), "True", when=await stage.identity_holds())
    return figures


async def _submit(server: Server, key: str, numbers: range, accepted: dict[int, str]) -> None:
    waiting = list(numbers)
    while waiting:
        await server.is_up.wait()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        except OSError:
            await asyncio.sleep(0.01)  # The server was just killed; connect again when it is back.
            continue
        try:
            client = Dialogue(reader, writer)
            await _expect("220", client.reply())
            await _expect("235", client.sign_in(key))
            while waiting:
                accepted[waiting[-1]] = await _send(client, waiting[-1])
                waiting.pop()
        except ConnectionError:
            pass  # The server was killed: send the same email again.
        finally:
            writer.close()


async def _send(client: Dialogue, number: int) -> str:
    to = f"reader{number}@example.com"
    await _expect("354", client.begin(to))
    email = f"From: shop@example.com\r\nTo: {to}\r\nMessage-ID: <{number}@example.com>\r\n\r\nHello\r\n.\r\n"
    return (await _expect("250", client.ask(email))).split()[-1]


async def _expect(status: str, replying: Awaitable[str]) -> str:
    reply = await replying
    if not reply:
        raise ConnectionResetError
    assert reply.startswith(status), reply
    return reply
