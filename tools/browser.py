"""Install Debian's chromium for the browser tests if it is missing and permissions allow."""

import os
import shutil
import subprocess

INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]


def main() -> None:
    if shutil.which("chromium"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print("There is no chromium: the tests of pages are skipped. On Debian: sudo apt-get install chromium")
        return
    print("Installing chromium for the tests of pages …", flush=True)
    quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
    if subprocess.run(INSTALL, check=False, stderr=subprocess.DEVNULL, **quiet).returncode == 0:
        return
    # Update the package lists only if they are missing or old, because this takes a minute.
    for command in (["apt-get", "update"], INSTALL):
        if subprocess.run(command, check=False, **quiet).returncode:
            print(f"`{' '.join(command)}` failed: the tests of pages are skipped.")
            return


if __name__ == "__main__":
    main()
