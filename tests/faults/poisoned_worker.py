"""A worker that dies while it builds the mail of one recipient, as of a bug in native code. Run as a process of its
own; the product itself has no such switch."""

import os
import signal
import sys
from typing import Any

from mailwright.cli import main
from mailwright.pipeline.compose import Composer

POISON = "poison@example.com"

prepare = Composer.prepare


def deadly(self: Composer, claimed: Any, now: int) -> Any:
    result = prepare(self, claimed, now)
    if claimed.to_email == POISON and type(result).__name__ == "Ready":
        os.kill(os.getpid(), signal.SIGKILL)
    return result


if __name__ == "__main__":
    Composer.prepare = deadly  # type: ignore[method-assign]
    sys.argv = ["mailwright", "worker"]
    main()
