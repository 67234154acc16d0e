"""Measure the CPU time of commands that open the database, from start to end."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from resource import RUSAGE_CHILDREN, getrusage

from bench import mailwright

COMMANDS = ("audit", "key list", "message list", "contact list", "campaign list", "forecast", "health")


def cpu_seconds(command: str, database_url: str) -> float:
    """Run the command twice and measure the second run, so that its modules are compiled and in memory."""
    env = {**os.environ, **mailwright.environment(database_url)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return _cpu_seconds([str(mailwright.PROGRAM), *command.split()], env)


def bare_python_seconds() -> float:
    """Measure what a command takes that does nothing: the start of Python with the module of SQLite."""
    return _cpu_seconds([sys.executable, "-c", "import sqlite3"], dict(os.environ))


def _cpu_seconds(words: Sequence[str], env: Mapping[str, str]) -> float:
    for _ in range(2):
        before = getrusage(RUSAGE_CHILDREN)
        subprocess.run(words, env=env, check=True, capture_output=True)
        after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
