"""Build both distributions into dist/, with their bills of materials and checksums: `make dist`.

The same sources always make the same files: the builder dates everything alike, and so does the manual.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.sbom import CHECKOUT, bill_of_materials

DIST: Final = CHECKOUT / "dist"
FOLDERS: Final = {"mailwright": CHECKOUT, "mailwright-client": CHECKOUT / "client"}


def main() -> None:
    files = [file for name in FOLDERS for file in build(name, DIST)]
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


def build(name: str, target: Path, *kinds: str) -> list[Path]:
    """Build a wheel and an sdist, or one of them, and write the bill of materials beside them."""
    target.mkdir(parents=True, exist_ok=True)
    before = {file: file.stat().st_mtime_ns for file in target.iterdir()}
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(target)]
    for kind in kinds or ("wheel", "sdist"):
        subprocess.run([*command, "--target", kind], cwd=FOLDERS[name], check=True, stdout=subprocess.DEVNULL)
    built = sorted(file for file in target.iterdir() if before.get(file) != file.stat().st_mtime_ns)
    version = built[0].name.removesuffix(".tar.gz").split("-")[1]
    bill = target / f"{name}-{version}.cdx.json"
    bill.write_text(json.dumps(bill_of_materials(name, version), indent=2) + "\n", encoding="utf-8")
    return [*built, bill]


if __name__ == "__main__":
    main()
