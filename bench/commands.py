"""Measure the CPU time of commands that open the database, from start to end."""

import os
import subprocess

from bench import mailwright

COMMANDS = ("audit", "key list", "message list", "contact list", "campaign list", "forecast", "health")


def cpu_seconds(command: str, database_url: str) -> float:
    """Run the command twice and measure the second run, so that its modules are compiled and in memory."""
    words = [str(mailwright.PROGRAM), *command.split()]
    env = {**os.environ, **mailwright.environment(database_url)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    for _ in range(2):
        before = os.times()
        subprocess.run(words, env=env, check=True, capture_output=True)
        after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system
