"""Install Debian's chromium for the browser tests if it is missing and permissions allow.

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
    if shutil.which(SHELL):
        return
    has_chromium = shutil.which("chromium") is not None
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        if not has_chromium:
            print(f"There is no chromium: the tests of pages are skipped. On Debian: sudo apt-get install {SHELL}")
        return
    print("Installing chromium for the tests of pages …", flush=True)
    # Both need the same version of their common files.
    install = ["apt-get", "install", *OPTIONS, _with_version_of_chromium()]
    if subprocess.run(install, check=False, stderr=subprocess.DEVNULL, **QUIET).returncode == 0 or has_chromium:
        return
    # Update the package lists only if they are missing or old, because this takes a minute.
    for command in (["apt-get", "update"], install):
        if subprocess.run(command, check=False, **QUIET).returncode:
            print(f"`{' '.join(command)}` failed: the tests of pages are skipped.")
            return


def _with_version_of_chromium() -> str:
    query = ["dpkg-query", "--show", "--showformat=${Version}", "chromium"]
    found = subprocess.run(query, check=False, capture_output=True, text=True)
    return f"{SHELL}={found.stdout}" if found.returncode == 0 and found.stdout else SHELL


if __name__ == "__main__":
    main()
