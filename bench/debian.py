"""Tools from Debian packages: SMTP sink and source of postfix, wrk for HTTP load."""

import os
import shutil
import subprocess
from pathlib import Path

from bench.children import NotMeasured, call

# Where packages put daemons and their tools; not on everyone's PATH.
PLACES = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def tool(name: str, package: str) -> Path:
    found = shutil.which(name, path=PLACES)
    if not found and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(package)
        found = shutil.which(name, path=PLACES)
    if not found:
        raise NotMeasured(f"{name} is missing: `apt-get install {package}` as root brings it")
    return Path(found)


def _install(package: str) -> None:
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    # With "No configuration", postfix installs its tools, but no main.cf, so that no daemon starts.
    answer = "postfix postfix/main_mailer_type select No configuration\n"
    subprocess.run(["debconf-set-selections"], input=answer, text=True, check=False, capture_output=True)
    call(["apt-get", "update", "-qq"], env=quiet)
    call(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], env=quiet)
