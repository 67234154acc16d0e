"""The `mailbox` provider writes to a local maildir, one file per message, for development and demos."""

import asyncio
import os
from pathlib import Path

from mailwright.domain.clock import Clock, Instant
from mailwright.domain.outgoing import OutgoingMessage
from mailwright.domain.results import ErrorCategory, ResultKind, SendResult, sent
from mailwright.domain.translation import lazy_gettext
from mailwright.ops.settings import Settings
from mailwright.providers.protocol import ProviderCheck

PARTS = ("tmp", "new", "cur")


class MailboxProvider:
    name = "mailbox"
    reports_events = False
    capacity = bulk_capacity = 8  # More files at a time would only wait for the same disk.

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    async def send(self, message: OutgoingMessage) -> SendResult:
        if message.send_before is not None and self._clock.now() >= message.send_before:
            return self._retryable("LOCK_EXPIRED", "The lease on this message ended before it was sent.")
        try:
            return sent(self.name, await asyncio.to_thread(self._deliver, message))
        except OSError as error:
            return self._retryable("MAILBOX_NOT_WRITABLE", f"{self._folder}: {error.strerror or error}")

    async def check(self) -> ProviderCheck:
        if problem := await asyncio.to_thread(self._problem):
            return ProviderCheck(
                False,
                lazy_gettext("{folder} cannot be written: {problem}", folder=self._folder, problem=problem),
                "MAILBOX_NOT_WRITABLE",
            )
        return ProviderCheck(True, lazy_gettext("messages are written to {folder}/new", folder=self._folder))

    async def close(self, grace: Instant = 0) -> None:
        """Do nothing, because every message is on disk when its send returns."""

    def _deliver(self, message: OutgoingMessage) -> str:
        """Write and flush the message in `tmp`, then move it to `new` in one step, as maildir requires.

        The file name is the message id, so resending a message that was in doubt replaces its file.
        """
        self._make_folders()
        name = f"{message.outbox_id}.mailwright"
        part = self._folder / "tmp" / name
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(f"Return-Path: <{message.sender}>\r\n".encode())
            file.write(f"Delivered-To: {', '.join(message.recipients)}\r\n".encode())
            file.write(message.content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._folder / "new" / name)
        return name

    def _problem(self) -> str | None:
        """Check the folders, or the nearest existing parents of missing folders, without creating any."""
        for part in PARTS:
            wanted = (self._folder / part).absolute()
            nearest = next(path for path in (wanted, *wanted.parents) if path.exists())
            if not nearest.is_dir():
                return f"{nearest} is not a folder"
            if not os.access(nearest, os.W_OK | os.X_OK):
                return f"no permission to write to {nearest}"
        return None

    def _make_folders(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in PARTS:
            (self._folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)

    def _retryable(self, code: str, reason: str) -> SendResult:
        return SendResult(
            ResultKind.RETRYABLE,
            self.name,
            code=code,
            category=ErrorCategory.TRANSIENT,
            message=reason,
            blames_provider=code == "MAILBOX_NOT_WRITABLE",
            definitely_not_sent=True,
        )


def read_settings(settings: Settings) -> Path:
    return settings.mailbox


def make_provider(settings: Settings, clock: Clock, _http: object, *, reports_events: bool) -> MailboxProvider:
    return MailboxProvider(read_settings(settings), clock)
