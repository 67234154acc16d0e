"""Pass a command to the warm process with its arguments, folder, environment and streams, and exit with its code."""

import json
import os
import signal
import socket
import sys


def main() -> int:
    address, *arguments = sys.argv[1:]
    pid_pipe = os.environ.pop("WARM_PID_PIPE", None)
    asked = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - light
    body = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as warm:
        warm.connect(address)
        socket.send_fds(warm, [len(body).to_bytes(4)], [0, 1, 2])
        warm.sendall(body)
        child = int.from_bytes(warm.recv(4, socket.MSG_WAITALL))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _: os.kill(child, number))
        if pid_pipe is not None:
            os.write(int(pid_pipe), child.to_bytes(4))
            os.close(int(pid_pipe))
        code = int.from_bytes(warm.recv(4, socket.MSG_WAITALL), signed=True)
    if code < 0:
        if -code != signal.SIGKILL:  # SIGKILL has no handler.
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


sys.exit(main())
