"""The latest attempts of a process, in a file that outlives it, to compare them with a database that lost commits.

After an asynchronous failover, a database may not know that a message was sent. The process that sent it does, and so
does this file if the process was killed: its memory is mapped to the file, so a record costs no system call. The file
is a ring of the latest attempts. It is never flushed, so a power failure of the machine can take the last records.
"""

import fcntl
import mmap
import os
import secrets
import struct
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from mailwright.domain.clock import Instant
from mailwright.domain.message import Claimed, Delivered, Outcome
from mailwright.domain.states import Status
from mailwright.ops.logs import logger

log = logger(__name__)

SUFFIX: Final = ".attempts"
# Of one process. At 500 attempts per second, they are those of the last four minutes.
CAPACITY: Final = 131_072
# The state of the attempt, the message key, the claim token, the time, the outbox ID, the source and the provider.
_RECORD: Final = struct.Struct("<B7xqqq36s12s48s")
_COUNT: Final = struct.Struct("<q")


class AttemptState(IntEnum):
    BEGUN = 1  # It is unknown whether the provider has the message.
    SENT = 2
    NOT_SENT = 3


class RecordedAttempt(NamedTuple):
    message_key: int
    state: AttemptState
    claim_token: int
    at: Instant  # Not after the time that the database has as the start of the attempt.
    outbox_id: str
    source: str
    provider: str | None


class RecordedAttempts(NamedTuple):
    """The attempts of one file, the oldest first; of each message only the latest one."""

    attempts: list[RecordedAttempt]
    is_cut: bool  # Whether there were more attempts before these.


class IntendedAttempt(Protocol):
    @property
    def claimed(self) -> Claimed: ...

    @property
    def provider(self) -> str | None: ...


class AttemptRecorder:
    """Records the attempts of one process. Create it with `open_recorder`."""

    def __init__(self, descriptor: int, memory: mmap.mmap) -> None:
        self._descriptor = descriptor
        self._memory = memory
        self._capacity = len(memory) // _RECORD.size - 1  # The first place holds the number of records.
        [self._count] = _COUNT.unpack_from(memory)
        self._offsets: dict[int, int] = {}  # Where the attempts without a result are, by message key.

    def begin(self, attempts: Iterable[IntendedAttempt], now: Instant) -> None:
        """Record attempts before they are recorded in the database, because the process may end in between."""
        memory, offsets = self._memory, self._offsets
        for attempt in attempts:
            claimed = attempt.claimed
            offset = (self._count % self._capacity + 1) * _RECORD.size
            _RECORD.pack_into(
                memory,
                offset,
                AttemptState.BEGUN,
                claimed.message_key,
                claimed.claim_token,
                now,
                claimed.outbox_id.encode(),
                claimed.source.encode(),
                (attempt.provider or "").encode(),
            )
            offsets[claimed.message_key] = offset
            self._count += 1
        _COUNT.pack_into(memory, 0, self._count)

    def withdraw(self, message_keys: Iterable[int]) -> None:
        """Record that these attempts were not handed over to a provider."""
        for key in message_keys:
            self._set(key, AttemptState.NOT_SENT)

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Record the responses of the providers."""
        for outcome in outcomes:
            if isinstance(outcome, Delivered):
                self._set(outcome.claimed.message_key, AttemptState.SENT)
            elif outcome.status is not Status.IN_DOUBT and not outcome.may_have_been_sent:
                self._set(outcome.claimed.message_key, AttemptState.NOT_SENT)
            else:
                self._offsets.pop(outcome.claimed.message_key, None)

    def close(self) -> None:
        self._memory.close()
        os.close(self._descriptor)  # Also releases the lock.

    def _set(self, message_key: int, state: AttemptState) -> None:
        offset = self._offsets.pop(message_key, None)
        if offset is not None:
            self._memory[offset] = state


def open_recorder(folder: Path, capacity: int = CAPACITY) -> AttemptRecorder | None:
    """Continue the file of a process that has ended, or create one. Return None if the folder cannot be written."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _lock_unused(folder)
        size = (capacity + 1) * _RECORD.size
        if os.fstat(descriptor).st_size != size:
            os.ftruncate(descriptor, 0)
            os.posix_fallocate(descriptor, 0, size)  # On a full disk, writing to a hole would end the process.
        return AttemptRecorder(descriptor, mmap.mmap(descriptor, size))
    except OSError as error:
        log.warning("attempt_records_unavailable", folder=str(folder), reason=str(error))
        return None


def has_records(folder: Path) -> bool:
    return any(folder.glob(f"*{SUFFIX}"))


def read_records(folder: Path) -> list[RecordedAttempts]:
    """Read the attempt files of all processes of this machine, also of those that still run."""
    return [_read(file.read_bytes()) for file in sorted(folder.glob(f"*{SUFFIX}"))]


def _lock_unused(folder: Path) -> int:
    """Return the descriptor of an attempt file that no process uses. Its lock lasts until the process ends."""
    for file in (*sorted(folder.glob(f"*{SUFFIX}")), folder / f"{secrets.token_hex(8)}{SUFFIX}"):
        descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return descriptor
    raise OSError("every attempt file is in use")


def _read(content: bytes) -> RecordedAttempts:
    capacity = len(content) // _RECORD.size - 1
    if capacity < 1:
        return RecordedAttempts([], is_cut=False)
    [count] = _COUNT.unpack_from(content)
    latest: dict[int, RecordedAttempt] = {}
    for number in range(max(0, count - capacity), count):
        offset = (number % capacity + 1) * _RECORD.size
        state, key, token, at, outbox_id, source, provider = _RECORD.unpack_from(content, offset)
        latest.pop(key, None)  # So that the order is that of the latest attempts.
        latest[key] = RecordedAttempt(
            key, AttemptState(state), token, at, _text(outbox_id), _text(source), _text(provider) or None
        )
    return RecordedAttempts(list(latest.values()), is_cut=count > capacity)


def _text(padded: bytes) -> str:
    return padded.rstrip(b"\0").decode()
