"""A worker process that crashes while it builds the message to one recipient, like a bug in native code."""

import os
import signal
import sys

from mailwright.cli import main
from mailwright.domain.message import Admitted, Settlement
from mailwright.pipeline.compose import Composer
from mailwright.pipeline.conclude import ReadyMessage

POISON = "poison@example.com"

prepare = Composer.prepare


def deadly(self: Composer, admitted: Admitted, now: int) -> ReadyMessage | Settlement:
    result = prepare(self, admitted, now)
    if admitted.claimed.to_email == POISON and isinstance(result, ReadyMessage):
        os.kill(os.getpid(), signal.SIGKILL)
    return result


if __name__ == "__main__":
    Composer.prepare = deadly  # type: ignore[method-assign]
    sys.argv = ["mailwright", "worker"]
    main()
