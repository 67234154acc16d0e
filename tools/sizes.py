"""Write the table of installed distributions in docs/install.md: what each is for, and its size on this machine.

`python -m tools.sizes` writes it. Sizes differ between platforms and versions, so tests compare only the names.
"""

import re
from importlib.metadata import Distribution
from pathlib import Path
from typing import Final

from tools.sbom import CHECKOUT, normal_name, run_time_distributions

PAGE: Final = CHECKOUT / "docs/install.md"
_TABLE: Final = re.compile(r"(?<=<!-- made: sizes -->\n).*?(?=<!-- end -->)", re.DOTALL)
PURPOSES: Final = {
    "aiohappyeyeballs": "connects over IPv6 and IPv4",
    "annotated-doc": "FastAPI needs it",
    "annotated-types": "pydantic needs it",
    "anyio": "FastAPI needs it",
    "argon2-cffi": "hashes passwords",
    "argon2-cffi-bindings": "hashes passwords",
    "asyncpg": "PostgreSQL",
    "cffi": "argon2 and cryptography need it",
    "click": "typer needs it",
    "cryptography": "DKIM, signatures of webhooks, stored secrets",
    "css-inline": "puts the style sheet of an email into its elements",
    "disposable-email-domains": "recognises throw-away addresses at sign-up",
    "dnspython": "checks of sender domains, and MX records",
    "et-xmlfile": "openpyxl needs it",
    "fastapi": "the HTTP API and the dashboard",
    "fido2": "passkeys",
    "greenlet": "SQLAlchemy needs it",
    "h11": "uvicorn needs it",
    "httptools": "reads HTTP requests and responses",
    "idna": "addresses in other scripts",
    "jinja2": "pages of the dashboard",
    "jsonschema-rs": "checks notifications from a queue, and is loaded only then",
    "markdown-it-py": "content written in Markdown",
    "markupsafe": "Jinja2 needs it",
    "mdurl": "markdown-it-py needs it",
    "minijinja": "templates of emails, with limits",
    "mrml": "emails from blocks, as MJML",
    "multidict": "HTTP headers",
    "nh3": "removes scripts from HTML",
    "openpyxl": "imports of spreadsheets",
    "opentelemetry-api": "tracing, which needs an extra too",
    "orjson": "JSON",
    "pillow": "resizes and re-encodes uploaded images",
    "prometheus-client": "metrics",
    "propcache": "yarl needs it",
    "pycparser": "cffi needs it",
    "pydantic": "validates settings and requests",
    "pydantic-core": "validates settings and requests",
    "pydantic-settings": "reads settings",
    "pygments": "rich needs it",
    "pyjwt": "single sign-on",
    "pyotp": "second factor",
    "pyrage": "encrypted backups",
    "python-dotenv": "pydantic-settings needs it",
    "python-multipart": "forms and uploads",
    "pyyaml": "configuration as code, YAML output",
    "redis": "Valkey and Redis",
    "rich": "output of commands",
    "segno": "QR code of the second factor",
    "selectolax": "reads the HTML of emails",
    "shellingham": "typer needs it",
    "sqlalchemy": "statements for SQLite and PostgreSQL",
    "starlette": "FastAPI needs it",
    "structlog": "logs",
    "typer": "commands",
    "typing-extensions": "pydantic and others need it",
    "typing-inspection": "pydantic needs it",
    "uvicorn": "the HTTP server",
    "uvloop": "the event loop of servers and workers",
    "yarl": "URLs",
}
# Smaller distributions share the last row.
_SHOWN_MEGABYTES: Final = 1.0


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_TABLE.sub(lambda _: table(), text, count=1), encoding="utf-8")
    print(f"{PAGE.relative_to(CHECKOUT)} updated.")


def table() -> str:
    sizes = {normal_name(each.metadata["Name"]): size_of(each) for each in run_time_distributions("mailwright")}
    own = sum(file.stat().st_size for file in (CHECKOUT / "src/mailwright").rglob("*") if _counts(file)) / 2**20
    large = sorted((name for name, size in sizes.items() if size >= _SHOWN_MEGABYTES), key=lambda name: -sizes[name])
    small = sorted({*sizes} - {*large})
    rows = [f"| {name} | {sizes[name]:.1f} | {PURPOSES[name]} |" for name in large]
    names = "; ".join(f"{name}: {PURPOSES[name]}" for name in small)
    return "\n".join(
        (
            "| distribution | MB | for |",
            "|---|---|---|",
            f"| mailwright | {own:.1f} | itself, with the manual, the dashboard and its browser files |",
            *rows,
            f"| {len(small)} others | {sum(sizes[name] for name in small):.1f} | {names} |",
            f"| **sum** | **{own + sum(sizes.values()):.0f}** | without compiled modules and pip |\n",
        )
    )


def listed_names(text: str) -> set[str]:
    """Return the names of distributions in the table."""
    found = _TABLE.search(text)
    assert found is not None
    rows = [line.split(" | ") for line in found[0].splitlines()[2:]]
    names = {row[0].removeprefix("| ") for row in rows if not re.search(r"others|\*", row[0])} - {"mailwright"}
    others = next(row[2] for row in rows if "others" in row[0])
    return names | {each.partition(":")[0] for each in others.removesuffix(" |").split("; ")}


def size_of(found: Distribution) -> float:
    """Return the size of the installed files in megabytes, without compiled modules."""
    files = (Path(str(file.locate())) for file in found.files or [])
    return sum(file.stat().st_size for file in files if file.is_file() and _counts(file)) / 2**20


def _counts(file: Path) -> bool:
    return file.is_file() and file.suffix != ".pyc"


if __name__ == "__main__":
    main()
