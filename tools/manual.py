"""Build the manual, a site with search, from docs/ into an archive that git ignores. `make manual` runs this.

docs/README.md is the navigation. Links are relative files, so that they work in the repository too; a link that does
not work on the site ends the build. A manual that is up to date is not built again.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = CHECKOUT / "docs"
TARGET: Final = CHECKOUT / "src/mailwright/web/manual.zip"
# Files outside docs/ that are part of the site, by their path in the checkout.
ELSEWHERE: Final = {"README.md": "overview.md", "CHANGELOG.md": "changelog.md", "LICENSE": "license.txt"}
FOLDERS: Final = ("deploy", "examples")
DECISIONS: Final = "decisions/*.md"

_LINK: Final = re.compile(r"""(\]\(|src=")([^)"\s]+)([)"])""")
_ITEM: Final = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<page>[\w./-]+\.md)\)")
_TITLE: Final = re.compile(r"^# (?:\d+\. )?(.+)$", re.MULTILINE)

STYLE: Final = """\
:root > * { --md-primary-fg-color: #3b5bdb; --md-accent-fg-color: #3b5bdb; --md-typeset-a-color: #3b5bdb; }
[data-md-color-scheme="slate"] { --md-accent-fg-color: #91a7ff; --md-typeset-a-color: #91a7ff; }
.md-typeset table:not([class]) td code { word-break: break-word; }
"""


def main() -> None:
    if is_current():
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stage(folder / "docs")
        (folder / "zensical.toml").write_text(configuration(), encoding="utf-8")
        _run_zensical(folder)
        shutil.rmtree(folder / "site/assets/stylesheets/classic", ignore_errors=True)  # The theme that is not used.
        pack(folder / "site", folder / TARGET.name)
        shutil.move(folder / TARGET.name, TARGET)


def pack(site: Path, target: Path) -> None:
    """Write the site as one compressed file, which is half as large, with the fingerprint as its comment."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in _files(site):
            # Without the time of the build, so that the same pages make the same archive.
            member = zipfile.ZipInfo(file.relative_to(site).as_posix())
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, file.read_bytes())
        archive.comment = fingerprint().encode()


def _without_indentation(file: Path) -> bytes:
    """Return a JSON document on one line, because the wheel contains the manual."""
    return json.dumps(json.loads(file.read_bytes()), ensure_ascii=False, separators=(",", ":")).encode()


def is_current() -> bool:
    """Return whether the manual was built from the files as they are now."""
    if not TARGET.exists():
        return False
    with zipfile.ZipFile(TARGET) as archive:
        return archive.comment.decode() == fingerprint()


def fingerprint() -> str:
    """Return a hash of everything that the site is made from."""
    known = hashlib.sha256()
    others = [Path(__file__), *(CHECKOUT / name for name in ELSEWHERE)]
    for file in [*others, *(file for folder in ("docs", *FOLDERS) for file in _files(CHECKOUT / folder))]:
        known.update(f"{file.relative_to(CHECKOUT)}\0".encode() + file.read_bytes())
    return known.hexdigest()


def stage(folder: Path) -> None:
    """Copy the pages, with links that fit the site, and the files that they link to."""
    for source in pages():
        target = folder / staged(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_with_site_links(source), encoding="utf-8")
        for linked in (file for _, file in links(source) if file.suffix != ".md"):
            copy = folder / staged(linked)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_without_indentation(linked) if linked.suffix == ".json" else linked.read_bytes())
    (folder / "manual.css").write_text(STYLE)


def pages() -> list[Path]:
    """Return the Markdown files of the manual."""
    return [CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def links(page: Path) -> Iterator[tuple[str, Path]]:
    """Yield each link of a page to another file: its text as written, and the file."""
    for _, target, _ in _LINK.findall(_without_code(page.read_text(encoding="utf-8"))):
        path = target.partition("#")[0]
        if path and ":" not in path:
            yield target, (page.parent / path).resolve()


def staged(file: Path) -> str:
    """Return the place of a file on the site, or end the build if it has none."""
    name = file.relative_to(CHECKOUT).as_posix()
    if name.startswith("docs/"):
        return name.removeprefix("docs/")
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if name.partition("/")[0] in FOLDERS and file.is_file():
        return name
    sys.exit(
        f"A page links to {name}, which is not part of the manual. Link to a file of docs, {' or '.join(FOLDERS)}."
    )


def _with_site_links(page: Path) -> str:
    here = Path(staged(page)).parent
    places = {target: os.path.relpath(staged(file), here) for target, file in links(page)}

    def moved(link: re.Match[str]) -> str:
        begin, target, end = link.groups()
        return f"{begin}{places[target]}{''.join(target.partition('#')[1:])}{end}" if target in places else link[0]

    return _LINK.sub(moved, page.read_text(encoding="utf-8"))


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


# Navigation and look.


def navigation() -> list[dict[str, Any]]:
    """Return the sections of docs/README.md with their pages; `###` headings become groups."""
    found: list[dict[str, Any]] = [{"Manual": "README.md"}, {"Overview": "overview.md"}]
    items: list[dict[str, Any]] = []
    section = items
    for line in (DOCS / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = items = []
            found.append({line[3:]: section})
        elif line.startswith("### "):
            items = []
            section.append({line[4:]: items})
        else:
            items += [{match["title"]: match["page"]} for match in _ITEM.finditer(line)]
    section.append({"Decision records": [_decision(file) for file in sorted(DOCS.glob(DECISIONS))]})
    return [*found, {"Changes": "changelog.md"}]


def _decision(file: Path) -> dict[str, str]:
    title = _TITLE.search(file.read_text(encoding="utf-8"))
    return {f"{file.name[:4]} {title[1] if title else ''}": staged(file)}


def configuration() -> str:
    """Return the settings of Zensical. Nothing is loaded from other hosts."""
    palette = [
        {"media": "(prefers-color-scheme)", "toggle": {"icon": "lucide/sun-moon", "name": "Use light colours"}},
        {
            "media": "(prefers-color-scheme: light)",
            "scheme": "default",
            "toggle": {"icon": "lucide/sun", "name": "Use dark colours"},
        },
        {
            "media": "(prefers-color-scheme: dark)",
            "scheme": "slate",
            "toggle": {"icon": "lucide/moon", "name": "Use the colours of the system"},
        },
    ]
    project = {
        "site_name": "Mailwright manual",
        "use_directory_urls": False,
        "nav": navigation(),
        "extra_css": ["manual.css"],
        "theme": {
            "font": False,
            "language": "en",
            "features": [
                "content.code.copy",
                "navigation.footer",
                "navigation.prune",
                "navigation.top",
                "search.highlight",
                "toc.follow",
            ],
            "palette": palette,
        },
        "extra": {"generator": False},
    }
    return f"project = {_toml(project)}\n"


def _toml(value: Any) -> str:
    """Return a value as TOML, whose strings, numbers and booleans are written as in JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _run_zensical(folder: Path) -> None:
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"The manual could not be built:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
