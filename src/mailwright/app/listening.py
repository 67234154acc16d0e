"""The sockets on which servers listen."""

import os
import socket

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.ops.settings import http_address

# Maximum number of connections that the kernel queues while the event loop is busy.
BACKLOG = 2_048


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket before anything else starts, so that a port in use is reported clearly."""
    try:
        return open_socket(host, port)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno and error.errno > 0 else str(error.strerror)
        raise ConfigurationInvalid(
            f"MAILWRIGHT_HOST, MAILWRIGHT_PORT: cannot listen on {host}:{port}: {reason}; choose another with --port"
        ) from error


def open_socket(host: str, port: int, *, shares_port: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG, reuse_port=shares_port)


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return http_address(host, port)
