"""Install Debian's chromium and PgBouncer for the tests if they are missing and permissions allow.

The headless shell is chromium without its windows. Loading a page takes it a third less CPU time.
"""

import os
import shutil
import subprocess

SHELL = "chromium-headless-shell"
# Do not wait long for a network that is not there: chromium itself may be installed.
OPTIONS = ("--yes", "--no-install-recommends", "--option=Acquire::http::Timeout=20", "--option=Acquire::Retries=1")
QUIET = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}


def main() -> None:
    can_install = os.geteuid() == 0 and shutil.which("apt-get") is not None
    if not shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        _provide("pgbouncer", "pgbouncer", "of connection poolers", can_install=can_install, has_other=False)
    if not shutil.which(SHELL):
        has_chromium = shutil.which("chromium") is not None
        # Both need the same version of their common files.
        package = _with_version_of_chromium() if can_install else SHELL
        _provide(SHELL, package, "of pages", can_install=can_install, has_other=has_chromium)


def _provide(program: str, package: str, tests: str, *, can_install: bool, has_other: bool) -> None:
    """Install a program, or say which tests are skipped without it. `has_other` is whether another one does."""
    if not can_install:
        if not has_other:
            print(f"There is no {program}: the tests {tests} are skipped. On Debian: sudo apt-get install {program}")
        return
    print(f"Installing {program} for the tests {tests} …", flush=True)
    install = ["apt-get", "install", *OPTIONS, package]
    if subprocess.run(install, check=False, stderr=subprocess.DEVNULL, **QUIET).returncode == 0 or has_other:
        return
    # Update the package lists only if they are missing or old, because this takes a minute.
    for command in (["apt-get", "update"], install):
        if subprocess.run(command, check=False, **QUIET).returncode:
            print(f"`{' '.join(command)}` failed: the tests {tests} are skipped.")
            return


def _with_version_of_chromium() -> str:
    query = ["dpkg-query", "--show", "--showformat=${Version}", "chromium"]
    found = subprocess.run(query, check=False, capture_output=True, text=True)
    return f"{SHELL}={found.stdout}" if found.returncode == 0 and found.stdout else SHELL


if __name__ == "__main__":
    main()
