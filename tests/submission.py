"""A running SMTP server in tests, and a client that sends any bytes."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sqlalchemy import func, select

from mailwright.app.listening import open_socket
from mailwright.app.wiring import Engine
from mailwright.sources.smtp.server import SmtpServer
from mailwright.storage.database import Database
from mailwright.storage.tables import messages, raw_contents

EMAIL = b"From: shop@example.com\r\nTo: ada@example.com\r\nSubject: Hello\r\n\r\nIt works.\r\n"


@dataclass(frozen=True)
class Submission:
    engine: Engine
    server: SmtpServer
    port: int
    tls_port: int | None
    key: str

    async def stored(self) -> list[str]:
        """Return the recipients of all messages, in their order."""
        async with self.engine.database.read() as tx:
            return [row.to_email for row in await tx.execute(select(messages.c.to_email).order_by(messages.c.id))]


@asynccontextmanager
async def a_submission(engine: Engine, tls: ssl.SSLContext | None = None, **options: Any) -> AsyncIterator[Submission]:
    server = SmtpServer(
        engine.keys,
        engine.failed_sign_ins,
        engine.raw_messages,
        engine.clock,
        tls=tls,
        **{"max_connections": 50, **options},
    )
    plain = open_socket("127.0.0.1", 0)
    listeners = {plain: False}
    encrypted = open_socket("127.0.0.1", 0) if tls is not None else None
    if encrypted is not None:
        listeners[encrypted] = True
    await server.serve(listeners)
    key = await engine.keys.create(1, "shop")
    ports = plain.getsockname()[1], encrypted.getsockname()[1] if encrypted is not None else None
    try:
        yield Submission(engine, server, *ports, key)
    finally:
        await server.stop(1)


class Dialogue:
    """A client that sends bytes as they are and reads whole replies."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def reply(self) -> str:
        lines = []
        while True:
            line = (await asyncio.wait_for(self.reader.readline(), 20)).decode()
            lines.append(line)
            if line[3:4] != "-":
                return "".join(lines)

    async def ask(self, data: bytes | str) -> str:
        self.writer.write(data.encode() if isinstance(data, str) else data)
        return await self.reply()

    async def say(self, *lines: str) -> list[str]:
        return [await self.ask(f"{line}\r\n") for line in lines]

    async def is_closed(self) -> bool:
        return await asyncio.wait_for(self.reader.read(), 20) == b""

    async def sign_in(self, key: str, user: str = "apikey") -> str:
        await self.ask("EHLO app.example.com\r\n")
        return await self.ask(f"AUTH PLAIN {credentials(user, key)}\r\n")

    async def begin(self, *recipients: str) -> str:
        """Send everything up to the reply to DATA."""
        lines = ["MAIL FROM:<shop@example.com>", *[f"RCPT TO:<{one}>" for one in recipients or ("ada@example.com",)]]
        return (await self.say(*lines, "DATA"))[-1]


@asynccontextmanager
async def a_dialogue(submission: Submission, *, is_signed_in: bool = True) -> AsyncIterator[Dialogue]:
    reader, writer = await asyncio.open_connection("127.0.0.1", submission.port)
    dialogue = Dialogue(reader, writer)
    try:
        await dialogue.reply()
        if is_signed_in:
            assert (await dialogue.sign_in(submission.key)).startswith("235")
        yield dialogue
    finally:
        writer.close()


def credentials(user: str, key: str) -> str:
    return base64.b64encode(f"\0{user}\0{key}".encode()).decode()


async def count_contents(database: Database) -> int:
    async with database.read() as tx:
        return int((await tx.execute(select(func.count()).select_from(raw_contents)))[0][0])


def a_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate for localhost and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(pem)
    return folder / "cert.pem", folder / "key.pem"


def server_tls(folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*map(str, a_certificate(folder)))
    return context


def client_tls(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))
