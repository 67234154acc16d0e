"""Build the npm package of the TypeScript client: `make typescript` writes it to dist/.

The compiler is installed with the browser assets, and Node comes from a wheel, so python3 is enough.
"""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from client.generate_typescript import generate
from tools.assets.hook import MODULES, node, npm

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "client/typescript"


def build(folder: Path) -> None:
    """Write the package to a new folder: sources, generated modules, compiled modules."""
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("dist", "node_modules"))
    generate(folder / "src")
    subprocess.run([node(), MODULES / "typescript/bin/tsc", "--project", folder], check=True)


def pack(target: Path) -> list[str]:
    """Write the archive that npm installs, and return the files in it."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "package"
        build(package)
        command = [node(), npm(), "pack", "--json", "--ignore-scripts", "--pack-destination", target.resolve()]
        done = subprocess.run(command, cwd=package, check=True, capture_output=True, text=True)
    [packed] = json.loads(done.stdout)
    print(f"{target.name}/{packed['filename']}: {packed['size'] // 1024} KB")
    return [file["path"] for file in packed["files"]]


if __name__ == "__main__":
    pack(CHECKOUT / "dist")
