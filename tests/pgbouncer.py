"""A real PgBouncer before a PostgreSQL server. Tests that need it are skipped where it is not installed."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.ports import free_port

# Debian installs it in a folder that only the superuser has in PATH.
_PROGRAM: Final = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
needs_pgbouncer = pytest.mark.skipif(_PROGRAM is None, reason="there is no pgbouncer here")


def is_pgbouncer_here() -> bool:
    return _PROGRAM is not None


# The defaults of PgBouncer, but for the pool: its connections are few, so that clients take turns with them.
_SETTINGS: Final = """
[databases]
* = host={socket} port=5432 user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
max_client_conn = 500
default_pool_size = {size}
{further}
"""


@contextmanager
def pgbouncer(url: str, mode: str, *, size: int = 8, further: str = "") -> Iterator[str]:
    """Run a pooler before the server of a URL, and yield the URL of the same database behind it."""
    assert _PROGRAM is not None
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="mwpb"))
    folder.chmod(0o755)
    [at] = parse_qs(urlsplit(url).query)["host"]
    file = folder / "pgbouncer.ini"
    file.write_text(_SETTINGS.format(socket=at, port=port, mode=mode, size=size, further=further))
    # It refuses to run as root, and only the user of the server may use the server's socket.
    user = Path(at, ".s.PGSQL.5432").stat().st_uid if os.geteuid() == 0 else None
    with (folder / "log").open("w") as log:
        process = subprocess.Popen((_PROGRAM, str(file)), user=user, stdout=log, stderr=log)
    try:
        _wait_for(port, process, folder / "log")
        yield f"postgresql://postgres@127.0.0.1:{port}{urlsplit(url).path}"
    finally:
        process.kill()  # From 1.23 on, SIGTERM waits for its clients.
        process.wait()
        shutil.rmtree(folder)


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(log.read_text())
