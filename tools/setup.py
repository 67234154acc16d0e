"""Create the virtual environment of `make setup` with uv if possible, otherwise with pip. Needs python3 only."""

import subprocess
import sys
import venv
from pathlib import Path

MINIMUM = (3, 11)


def main(folder: Path) -> None:
    if sys.version_info < MINIMUM:
        sys.exit(f"Mailwright needs Python {MINIMUM[0]}.{MINIMUM[1]} or newer; this is {sys.version.split()[0]}.")
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"Creating {folder} …", flush=True)
        venv.create(folder, with_pip=True)
    run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv"], or_else="pip installs instead"
    )
    fast = (folder / "bin" / "uv").exists()
    install = [folder / "bin" / "uv", "pip"] if fast else [python, "-m", "pip"]
    # Compile now: in read-only containers every command would otherwise compile a thousand modules first.
    target = ["--python", python, "--compile-bytecode"] if fast else []
    print("Installing Mailwright and its test dependencies …", flush=True)
    run([*install, "install", *target, "--quiet", "--require-hashes", "-r", "requirements.lock"])
    # The build backend is locked too, so the project is built without network access.
    run([*install, "install", *target, "--quiet", "--no-deps", "--no-build-isolation", "-e", ".", "-e", "./client"])
    run([python, "-m", "compileall", "-q", "src"], or_else="modules are compiled at every start")
    commands = folder / "bin"
    print(f"Done. Next: `{commands / 'mailwright'} demo` shows sample data, `{commands / 'mailwright'} serve` starts.")


def run(command: list[str | Path], or_else: str = "") -> None:
    done = subprocess.run([str(part) for part in command], check=False)
    if done.returncode and not or_else:
        sys.exit(f"`{' '.join(str(part) for part in command)}` failed; its message is above.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
