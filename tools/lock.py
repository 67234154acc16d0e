"""Resolve `requirements.lock` for every supported platform, with hashes and without registry addresses."""

import subprocess
import sys
from pathlib import Path

LOCK = Path("requirements.lock")


def main() -> None:
    command = [
        str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--universal", "--generate-hashes",
        "--python-version", "3.11", "--no-emit-index-url", "--no-emit-find-links", "--no-annotate", "--no-header",
        "--upgrade", "--group", "dev", "--output-file", str(LOCK), "pyproject.toml", "tools/build.in",
    ]  # fmt: skip
    subprocess.run(command, check=True)
    packages = [line for line in LOCK.read_text().splitlines() if "==" in line]
    print(f"{LOCK}: {len(packages)} packages")


if __name__ == "__main__":
    main()
