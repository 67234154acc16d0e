"""Encrypt backups in the age format, which other programs can read too."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

import pyrage

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.storage.backup_file import BackupInvalid

_AGE: Final = b"age-encryption.org/"
_SECRET_KEY: Final = "AGE-SECRET-KEY-"  # noqa: S105 - a prefix, not a secret


_GZIP: Final = b"\x1f\x8b"


def is_backup(file: Path) -> bool:
    """Return whether a file begins like a backup, encrypted or not. A key or a database never does."""
    try:
        with file.open("rb") as stream:
            return stream.read(len(_AGE)).startswith((_AGE, _GZIP))
    except OSError:
        return False


def create_key(file: Path) -> None:
    """Write a new key that only its owner can read."""
    key = pyrage.x25519.Identity.generate()
    handle = os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(f"# public key: {key.to_public()}\n{key}\n")


@contextmanager
def encrypted(target: IO[bytes], key_file: Path | None) -> Iterator[IO[bytes]]:
    """Yield a stream into the target. With a key file, the content is encrypted for its keys."""
    if key_file is None:
        yield target
        return
    recipients = _recipients(key_file)
    reading, writing = os.pipe()

    with _Beside(os.fdopen(reading, "rb"), lambda plain: pyrage.encrypt_io(plain, target, recipients)) as beside:
        with os.fdopen(writing, "wb") as stream:
            yield stream
        beside.finish()


@contextmanager
def decrypted(source: IO[bytes], key_file: Path | None) -> Iterator[IO[bytes]]:
    """Yield the content of a backup; if it is encrypted, decrypt it with the key in `key_file`."""
    is_encrypted = source.read(len(_AGE)) == _AGE
    source.seek(0)
    if not is_encrypted:
        yield source
        return
    if key_file is None:
        raise BackupInvalid("The backup is encrypted. Pass the file with its secret key: --key KEYFILE.")
    identities = _identities(key_file)
    reading, writing = os.pipe()

    def decrypt(plain: IO[bytes]) -> None:
        try:
            pyrage.decrypt_io(source, plain, identities)
        except pyrage.DecryptError as error:
            raise BackupInvalid(
                f"The backup cannot be decrypted with the key in {key_file}: it was encrypted for another key, or "
                "was changed."
            ) from error

    with _Beside(os.fdopen(writing, "wb"), decrypt), os.fdopen(reading, "rb") as stream:
        yield stream


class _Beside:
    """Runs `work` on one end of a pipe in a thread, while the `with` block uses the other end.

    If `work` fails before the block ends, its error replaces the block's error.
    """

    def __init__(self, end: IO[bytes], work: Callable[[IO[bytes]], None]) -> None:
        self._end = end
        self._work = work
        self._error: Exception | None = None
        self._is_over = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "_Beside":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True  # Later errors of the thread are ignored: the block has closed its end of the pipe.
        self.finish()

    def finish(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work(self._end)
        except Exception as error:
            if not self._is_over:
                self._error = error
        finally:
            # Close the pipe only after storing the error, so that the block never sees a plain end of file.
            with suppress(OSError):
                self._end.close()


def can_decrypt(key_file: Path) -> bool:
    """Return whether the file has a secret key. A public key can encrypt a backup, but not decrypt it."""
    return any(line.startswith(_SECRET_KEY) for line in _key_lines(key_file))


def _recipients(file: Path) -> list[Any]:
    """Read the public keys to encrypt for: age or SSH public keys, or those derived from age secret keys."""
    found: list[Any] = []
    for line in _key_lines(file):
        with suppress(pyrage.RecipientError, pyrage.IdentityError):
            if line.startswith(_SECRET_KEY):
                found.append(pyrage.x25519.Identity.from_str(line).to_public())
            elif line.startswith("ssh-"):
                found.append(pyrage.ssh.Recipient.from_str(line))
            else:
                found.append(pyrage.x25519.Recipient.from_str(line))
    return found or _no_key(file, "a public key (age1… or ssh-…)")


def _identities(file: Path) -> list[Any]:
    lines = _key_lines(file)
    with suppress(pyrage.IdentityError):
        return [pyrage.x25519.Identity.from_str(line) for line in lines if line.startswith(_SECRET_KEY)] or [
            pyrage.ssh.Identity.from_buffer(file.read_bytes())
        ]
    return _no_key(file, "a secret key (AGE-SECRET-KEY-… or a private SSH key)")


def _key_lines(file: Path) -> list[str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ConfigurationInvalid(f"The key {file} cannot be read ({error.strerror}).") from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _no_key(file: Path, expected: str) -> list[Any]:
    raise ConfigurationInvalid(
        f"The file {file} has no key; it must have {expected}. A backup to a file with a new key creates one."
    )
