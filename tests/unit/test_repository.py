"""Check the repository: the docs match the code, the picture matches the folders, and documented commands run."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
from tools import docs

from mailwright.ops.settings import Settings
from tests.ports import free_port
from tests.warm import warm_program

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "src" / "mailwright"
README = CHECKOUT / "README.md"
ARCHITECTURE = CHECKOUT / "docs" / "architecture.md"
PAGES = (README, CHECKOUT / "CHANGELOG.md", *sorted((CHECKOUT / "docs").rglob("*.md")))

# The pages run in this order, and each continues after the previous one.
WALKED = (
    "http-api.md",
    "move-your-app.md",
    "drop-in-apis.md",
    "smtp.md",
    "agents.md",
    "audience.md",
    "moving-from-listmonk.md",
    "moving-from-sendgrid.md",
    "configuration-as-code.md",
    "operating.md",
    "replies.md",
    "campaigns.md",
    "articles.md",
    "notifications.md",
    "outbox-table.md",
    "sequences.md",
    "composer.md",
    "images-and-brand.md",
    "sender-domains.md",
    "dmarc.md",
    "retention.md",
    "configuration.md",
    "approvals.md",
)
WALK = (README, *(CHECKOUT / "docs" / name for name in WALKED))
PORT = "8025"
SMTP_PORT = "2525"
COMMAND_SECONDS = 60.0
# A worker may need a moment, so commands that only read are repeated.
LOOKS = (
    "mailwright message show",
    "mailwright audit",
    "mailwright check",
    "mailwright campaign show",
    "mailwright article runs",
    "mailwright sequence explain",
    "curl -s http://127.0.0.1:8025/v1/email/$ID ",
)
SETTLE_SECONDS = 10.0

TREE = ("src", "tests", "docs", "tools", "bench", ".ci")
FILES = ("README.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
# Written in two parts, so that this file does not match the pattern.
FORBIDDEN = {
    "a path of some machine": re.compile("/(?:ro" + r"ot|ho" + r"me/\w+|wo" + r"rk|Us" + r"ers/\w+)/"),
    "a number of some tracker": re.compile(r"\b(?:iss" + r"ue|tic" + r"ket) ?#?\d+", re.IGNORECASE),
    "papers outside the project": re.compile(r"\b(?:se" + r"eds?/|se" + r"ed \d|sp" + r"ec/|house-sty" + "le)"),
}


# The picture.


def test_the_boxes_of_the_picture_are_the_folders() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    boxes = re.findall(r"\[(\w+)\]", _picture(ARCHITECTURE))
    assert sorted(boxes) == sorted(folders)


def test_readme_and_architecture_have_the_same_picture() -> None:
    assert _picture(README) == _picture(ARCHITECTURE)


def test_life_of_a_message_has_eight_steps_with_files() -> None:
    life = ARCHITECTURE.read_text(encoding="utf-8").partition("## The life of a message")[2].partition("\n## ")[0]
    steps = re.split(r"^\d\. ", life, flags=re.MULTILINE)[1:]
    assert len(steps) == 8
    for step in steps:
        assert re.search(r"`[\w/]+\.py`", step), f"names no file: {step}"


def test_files_and_pages_that_are_named_exist() -> None:
    for page in PAGES:
        _check_names(page)


def _check_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for file in re.findall(r"`((?:\w+/)+\w+\.(?:py|sql))`", text):
        homes = (CHECKOUT / file, PACKAGE / file, CHECKOUT / "tests" / file)
        assert any(home.exists() for home in homes), f"{page.name} names {file}, which does not exist"
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, heading = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name} links to {target}, which does not exist"
        if heading:
            assert heading in _headings(goal), f"{page.name} links to {target}, which has no such heading"


# Generated pages.


@pytest.mark.parametrize("page", ["configuration.md", "commands.md", "openapi.json", "promises.md"])
def test_pages_made_from_the_code_are_up_to_date(page: str) -> None:
    should_be = _made()[page]
    is_now = (docs.DOCS / page).read_text(encoding="utf-8")
    assert is_now == should_be, f"docs/{page} is behind the code: run `make docs`"


def test_every_promise_has_a_test_and_every_test_a_promise() -> None:
    complaints = docs.unmatched()
    assert not complaints, "\n".join(complaints)


def test_test_is_found_by_mark_class_or_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    mark = "pytest.mark.promise"
    (folder / "test_sample.py").write_text(
        f"pytestmark = [{mark}('module')]\n\n@{mark}('class')\nclass TestIt:\n"
        f"    @{mark}('own')\n    def test_a(self): ...\n\ndef test_b(): ...\n"
    )
    monkeypatch.setattr(docs, "CHECKOUT", tmp_path)
    assert docs.guards() == {
        "module": [("test_sample.py", "test_a"), ("test_sample.py", "test_b")],
        "class": [("test_sample.py", "test_a")],
        "own": [("test_sample.py", "test_a")],
    }


def test_the_example_of_the_configuration_file_is_valid() -> None:
    page = (CHECKOUT / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = tomllib.loads(_blocks(page, "toml")[0])
    settings = Settings(**example)
    assert settings.model_fields_set == set(example)


def test_the_code_table_of_smtp_is_complete() -> None:
    meaning = (PACKAGE / "providers" / "smtp" / "responses.py").read_text(encoding="utf-8")
    page = (CHECKOUT / "docs" / "delivery.md").read_text(encoding="utf-8")
    codes = set(re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"', meaning))
    assert len(codes) > 15
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_every_route_is_on_the_page_of_the_api() -> None:
    page = (CHECKOUT / "docs" / "http-api.md").read_text(encoding="utf-8")
    routes = json.loads(_made()["openapi.json"])["paths"]
    assert [route for route in routes if not re.search(rf" {re.escape(route)}`", page)] == []


# The tree.


def test_the_tree_speaks_of_nothing_outside_itself() -> None:
    found = [
        f"{file.relative_to(CHECKOUT)}:{number}: {what}"
        for file in _tree()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        for what, pattern in FORBIDDEN.items()
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_every_event_of_the_log_is_one_word() -> None:
    """One word is easy to search for in a log."""
    events = [
        (file.name, event)
        for file in PACKAGE.rglob("*.py")
        for event in re.findall(r'\blog\.(?:debug|info|warning|error)\(\s*"([^"]*)"', file.read_text(encoding="utf-8"))
    ]
    assert len(events) > 30
    assert [(file, event) for file, event in events if not re.fullmatch(r"[a-z0-9_]+", event)] == []


# The commands.


@dataclass
class Step:
    page: str
    command: str
    expected: list[str] = field(default_factory=list)


@pytest.mark.timeout(600)  # Runs every command of every page, one after the other.
@pytest.mark.skipif(shutil.which("curl") is None, reason="the pages show curl, and there is none here")
def test_the_documented_commands_do_what_the_pages_show(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Run every console block of the pages, in one folder and one shell."""
    port, smtp_port = str(free_port()), str(free_port())
    steps = [step for page in WALK for step in _steps(page)]
    assert len(steps) > 20
    assert {page for page in PAGES if _blocks(page.read_text(encoding="utf-8"), "console")} == set(WALK)
    walk = Walk(tmp_path, port, smtp_port, warm_program(tmp_path_factory.mktemp("bin")))
    try:
        for step in steps:
            walk.take(step)
    finally:
        walk.end()


class Walk:
    """A shell session: each command uses the files and variables of the previous ones."""

    def __init__(self, folder: Path, port: str, smtp_port: str, program: Path) -> None:
        self._folder = folder
        self._port = port
        self._smtp_port = smtp_port
        # The commands do not see the settings of the developer.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("MAILWRIGHT_")}
        path = os.pathsep.join((str(program.parent), str(Path(sys.executable).parent), os.environ["PATH"]))
        self._environment = {**clean, "MAILWRIGHT_PORT": port, "PATH": path, "COLUMNS": "200", "NO_COLOR": "1"}
        self._server: subprocess.Popen[bytes] | None = None

    def take(self, step: Step) -> None:
        if served := re.fullmatch(r"((?:[A-Z_]+=\S+ )*)mailwright serve", self._with_ports(step.command)):
            self._serve(dict(each.split("=", 1) for each in served[1].split()))
            return
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            output, code = self._run(step.command)
            missing = _missing(step.expected, output)
            is_look = step.command.startswith(LOOKS)
            if (not missing and code == 0) or not is_look or time.monotonic() > deadline:
                break
            time.sleep(0.2)  # Leave the processor to the server, whose work the command shows.
        assert code == 0, f"{step.page}: `{step.command}` ended with {code}:\n{output}"
        assert not missing, f"{step.page}: `{step.command}` did not show {missing[0]!r}:\n{output}"

    def end(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait(COMMAND_SECONDS)

    def _serve(self, settings: dict[str, str]) -> None:
        """Start the server with these settings. One that runs is stopped first."""
        self.end()
        with (self._folder / "serve.log").open("wb") as log:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "mailwright", "serve"],
                cwd=self._folder,
                env=self._environment | settings,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + COMMAND_SECONDS
        while not self._is_ready():
            said = (self._folder / "serve.log").read_text()
            assert self._server.poll() is None, f"`mailwright serve` ended:\n{said}"
            assert time.monotonic() < deadline, f"`mailwright serve` did not get ready:\n{said}"
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=1) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def _with_ports(self, command: str) -> str:
        return command.replace(PORT, self._port).replace(SMTP_PORT, self._smtp_port)

    def _run(self, command: str) -> tuple[str, int]:
        """Run one command. A file keeps the variables of the shell between commands."""
        kept = self._folder / ".variables"
        kept.touch()
        keep = f"declare -p KEY PLATFORM_KEY ID LATER > {kept.name} 2>/dev/null"
        done = subprocess.run(
            ["bash", "-c", f". ./{kept.name}\n{self._with_ports(command)}\ncode=$?\n{keep}\nexit $code"],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr, done.returncode


def _steps(page: Path) -> Iterator[Step]:
    for block in _blocks(page.read_text(encoding="utf-8"), "console"):
        step: Step | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                if step:
                    yield step
                step = Step(page.name, line[2:])
            elif step:
                step.expected.append(line)
        if step:
            yield step


def _missing(expected: list[str], output: str) -> list[str]:
    """Return the expected lines that are missing. An ellipsis matches anything; other lines may come between."""
    text = " ".join(output.split())
    return [line for line in expected if not re.search(_pattern(line), text)]


def _pattern(line: str) -> str:
    return ".*?".join(re.escape(part) for part in " ".join(line.split()).split("…"))


# Reading pages.


@cache
def _made() -> dict[str, str]:
    return {page.name: text for page, text in docs.pages()}


def _picture(page: Path) -> str:
    return _blocks(page.read_text(encoding="utf-8"), "text")[0]


def _blocks(text: str, language: str) -> list[str]:
    """Return the blocks of a language, also those that belong to a list item."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)
    return [dedent(block) for _, block in found]


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _tree() -> Iterator[Path]:
    yield from (CHECKOUT / name for name in FILES)
    for folder in TREE:
        for file in sorted((CHECKOUT / folder).rglob("*")):
            is_text = file.suffix in {".py", ".md", ".sql", ".json", ".toml", ".mjs", ".lua", ".in", ""}
            if file.is_file() and is_text and "__pycache__" not in file.parts and "node_modules" not in file.parts:
                yield file
