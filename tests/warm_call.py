"""Pass a command to the warm process with its arguments, folder, environment and streams, and exit with its code."""

import json
import os
import signal
import socket
import sys


def main() -> int:
    address, *arguments = sys.argv[1:]
    asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - light
    body = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as warm:
        warm.connect(address)
        socket.send_fds(warm, [len(body).to_bytes(4)], [0, 1, 2])
        warm.sendall(body)
        child = int.from_bytes(warm.recv(4, socket.MSG_WAITALL))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(child, number))
        code = int.from_bytes(warm.recv(4, socket.MSG_WAITALL), signed=True)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


sys.exit(main())
