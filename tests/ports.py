"""Ports for servers that a test starts."""

import random
import socket

# Systems give the ports above to outgoing connections and to servers that ask for any port.
_LOWEST, _HIGHEST = 10_240, 32_767


def free_port() -> int:
    """Return a port of this machine that no server uses, and that others hardly take before the test does."""
    while True:
        port = random.randint(_LOWEST, _HIGHEST)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
