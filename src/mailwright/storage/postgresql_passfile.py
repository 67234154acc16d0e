"""Find the password of a server in a password file, by the rules of libpq.

The driver reads such files too, but leaves the backslashes before colons in a password, and does not find the folder of
a Unix socket.
"""

import re
import stat
from pathlib import Path
from typing import Final

_FIELD: Final = re.compile(r"(?:^|:)((?:\\.|[^:\\])*)")
_ESCAPED: Final = re.compile(r"\\(.)")
_FIELDS: Final = 5


def find_password(file: Path, host: str, port: int, database: str, user: str) -> str | None:
    """Return the password of the first line that fits. A file that others can read is ignored, as libpq does."""
    try:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return None
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    hosts = {host, "localhost"} if host.startswith(("/", "@")) else {host}
    for line in lines:
        fields = [_ESCAPED.sub(r"\1", each) for each in _FIELD.findall(line)]
        if line.startswith("#") or len(fields) < _FIELDS:
            continue
        wanted = (hosts, {str(port)}, {database}, {user})
        if all(given == "*" or given in values for given, values in zip(fields, wanted, strict=False)):
            return fields[_FIELDS - 1]
    return None
