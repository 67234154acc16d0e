"""Install the distributions from the package index, as a person does. Opt-in, because it downloads 60 MB."""

import os
import re
import subprocess
import sys
import urllib.request
import venv
from pathlib import Path

import pytest
from tools import manual
from tools.distributions import build

import mailwright

pytestmark = [
    pytest.mark.skipif(not os.environ.get("MAILWRIGHT_INSTALL_TEST"), reason="needs an index; run `make install-test`"),
    pytest.mark.timeout(900),
]
START_SECONDS = 120


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    assert manual.is_current(), "run `make manual`"
    folder = tmp_path_factory.mktemp("dist")
    built = [*build("mailwright", folder, "wheel"), *build("mailwright-client", folder, "wheel")]
    return [file for file in built if file.suffix == ".whl"]


def test_pip_installs_both_distributions(wheels: list[Path], tmp_path: Path) -> None:
    venv.create(tmp_path / "environment", with_pip=True)
    programs = tmp_path / "environment/bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *wheels], check=True)
    subprocess.run([programs / "python", "-m", "pip", "check"], check=True)
    shown = subprocess.run([programs / "mailwright", "--version"], check=True, capture_output=True, text=True).stdout
    assert mailwright.__version__ in shown
    subprocess.run([programs / "python", "-c", "from mailwright_client import Client"], check=True)
    first_page([str(programs / "mailwright"), "demo", "--port", "0"], tmp_path)


def test_uvx_starts_the_demo(wheels: list[Path], tmp_path: Path) -> None:
    uvx = [sys.executable, "-m", "uv", "tool", "run", "--quiet", "--from", str(wheels[0])]
    first_page([*uvx, "mailwright", "demo", "--port", "0"], tmp_path)


def first_page(command: list[str], folder: Path) -> None:
    """Start the demo, open its first page, and stop it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAILWRIGHT_", "PYTHON"))}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200", "NO_COLOR": "1"},
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
        found = re.search(r"http://127\.0\.0\.1:\d+", "".join(lines))
        assert found, "".join(lines)
        with urllib.request.urlopen(found[0], timeout=START_SECONDS) as page:
            assert page.status == 200
            assert "Mailwright" in page.read().decode()
    finally:
        process.terminate()
        process.communicate(timeout=START_SECONDS)
