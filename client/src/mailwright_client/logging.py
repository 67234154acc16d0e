"""A handler for the module `logging` that sends records by email, at most one email in each interval.

    handler = EmailHandler(URL, KEY, to="ops@example.com", sender="app@example.com")
    handler.setLevel(logging.ERROR)
    logging.getLogger().addHandler(handler)

A thread sends the emails, so that logging never waits for the network. Records that arrive during the interval are sent
together in the next email. If there are too many, or Mailwright is not reachable, they are dropped and counted.
"""

import contextlib
import logging
import os
import queue
import sys
import threading
from typing import Any, Final

from mailwright_client import models
from mailwright_client.client import Client
from mailwright_client.errors import MailwrightError

MAX_WAITING: Final = 1_000
MAX_TEXT: Final = 200_000
MAX_SUBJECT: Final = 120


class EmailHandler(logging.Handler):
    """Sends the first record at once, and later ones after `interval_seconds` since the last email."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        to: str,
        sender: str | None = None,
        subject_prefix: str = "",
        interval_seconds: float = 60.0,
        close_seconds: float = 5.0,
        client: Client | None = None,
    ) -> None:
        """`close_seconds` is how long closing, for example at exit, waits until the last records are sent."""
        super().__init__()
        self._client = client or Client(url, api_key, timeout_seconds=10.0)
        self._to = to
        self._sender = sender
        self._subject_prefix = subject_prefix
        self._interval = interval_seconds
        self._close_seconds = close_seconds
        self._start_lock = threading.Lock()
        self._sending: _SendingThread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(threading.current_thread(), _SendingThread):
            return  # The client or its libraries log while an email is sent, which would cause the next email.
        try:
            self._thread().add(record.levelname, self.format(record))
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Send the records that wait, within a limited time."""
        sending, self._sending = self._sending, None
        if sending is not None and sending.pid == os.getpid():
            sending.finish(self._close_seconds)
        super().close()

    def _thread(self) -> "_SendingThread":
        """Return the thread of this process; a process that was forked has none."""
        with self._start_lock:
            if self._sending is None or self._sending.pid != os.getpid():
                self._sending = _SendingThread(self._send, self._interval)
                self._sending.start()
            return self._sending

    def _send(self, records: list[tuple[str, str]], dropped: int) -> None:
        level, first = records[0]
        subject = " ".join([self._subject_prefix, f"{level}:", first.strip().partition("\n")[0][:MAX_SUBJECT]]).split()
        readable = "".join(character for character in " ".join(subject) if character.isprintable())
        notes = [f"{dropped} more records were dropped."] if dropped else []
        text = "\n\n".join([*notes, *[text for _, text in records]])[:MAX_TEXT].replace("\0", "\ufffd")
        options: dict[str, Any] = {"from_": self._sender} if self._sender else {}
        request = models.SendRequest(to=self._to, subject=readable[:MAX_SUBJECT], text=text, tags=["log"], **options)
        try:
            self._client.email.send(request)
        except MailwrightError as error:
            # Logging this would reach this handler again.
            with contextlib.suppress(OSError, ValueError):
                print(f"mailwright: {len(records)} log records were not sent: {error}", file=sys.stderr)


class _SendingThread(threading.Thread):
    def __init__(self, send: Any, interval: float) -> None:
        super().__init__(name="mailwright-log", daemon=True)
        self.pid = os.getpid()
        self._send = send
        self._interval = interval
        self._records: queue.Queue[tuple[str, str] | None] = queue.Queue(MAX_WAITING)
        self._dropped = 0
        self._is_finishing = threading.Event()

    def add(self, level: str, text: str) -> None:
        try:
            self._records.put_nowait((level, text))
        except queue.Full:
            self._dropped += 1

    def finish(self, seconds: float) -> None:
        self._is_finishing.set()
        with contextlib.suppress(queue.Full):
            self._records.put_nowait(None)
        self.join(seconds)

    def run(self) -> None:
        while not self._is_finishing.is_set():
            first = self._records.get()
            self._send_all([first])
            self._is_finishing.wait(self._interval)
        self._send_all([])

    def _send_all(self, records: list[tuple[str, str] | None]) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                records.append(self._records.get_nowait())
        dropped, self._dropped = self._dropped, 0
        found = [record for record in records if record is not None]
        if found:
            self._send(found, dropped)
