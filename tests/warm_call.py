"""Pass a command to the warm process with its arguments, folder, environment and streams, and exit with its code.

Imports only modules that are built into Python: `json` and `socket` would take two thirds of its time.
"""

import _signal
import _socket
import marshal
import posix
import sys


def main() -> int:
    address, *arguments = sys.argv[1:]
    environment = dict(posix.environ)
    pid_pipe = environment.pop(b"WARM_PID_PIPE", None)
    body = marshal.dumps((arguments, posix.getcwd(), environment))
    warm = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    warm.connect(address)
    streams = b"".join(stream.to_bytes(4, sys.byteorder) for stream in (0, 1, 2))
    warm.sendmsg([len(body).to_bytes(4)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    warm.sendall(body)
    child = int.from_bytes(warm.recv(4, _socket.MSG_WAITALL))
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):
        _signal.signal(number, lambda number, _: posix.kill(child, number))
    if pid_pipe is not None:
        posix.write(int(pid_pipe), child.to_bytes(4))
        posix.close(int(pid_pipe))
    code = int.from_bytes(warm.recv(4, _socket.MSG_WAITALL), signed=True)
    if code < 0:
        if -code != _signal.SIGKILL:  # SIGKILL has no handler.
            _signal.signal(-code, _signal.SIG_DFL)
        posix.kill(posix.getpid(), -code)
    return code


sys.exit(main())
