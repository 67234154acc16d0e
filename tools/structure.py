"""Check class sizes, circles of imports, the schema, who writes which table and who names commands."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools")
MAX_METHODS = 20

PACKAGE = CHECKOUT / "src" / "mailwright"
# Packages that may name commands, because people see their texts only there or in checks.
INTERFACES = ("app", "checks", "actions", "cli", "demo", "schemas", "texts", "web")
COMMAND = re.compile(r"`mailwright [a-z]")

TABLE = re.compile(r'^(\w+)(?:: [^=\n]+)? = Table\(\s*"(\w+)"', re.MULTILINE)
CHANGED_BY_SQL = re.compile(r"\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+(\w+)")
CHANGED_BY_CODE = re.compile(r"\b(?:insert|update|delete)\(\s*(\w+)\b")
COMMENT = re.compile(r"--[^\n]*")
# Imports point down, so these packages change some tables of packages above them, in one transaction with their own.
SHARED = {
    # Retention deletes old rows. It also stores contacts of messages, requests of steps, and the state of campaigns.
    "outbox": {
        *("contact_events", "contacts", "form_submissions", "imports", "mailout_logs", "queue_entries", "reports"),
        *("sequence_enrolments", "sequence_steps", "webhook_deliveries"),
    },
    # Erasures, and runs through sequences that an unsubscribe or an event ends or starts.
    "audience": {
        *("mailout_errors", "mailout_recipients", "profile_recipients", "queue_entries", "reports"),
        *("sequence_enrolments", "subscriber_reports", "webhook_deliveries"),
    },
    "storage": {"installation"},  # The fingerprint of the secret key.
    "sources/mailouts": {"subscriber_reports"},  # Deleted after they were compared.
    "sources/notifications": {"events"},  # A table of the queue, which has the same name.
}


def main() -> None:
    problems = [problem for folder in FOLDERS for problem in check_folder(CHECKOUT / folder)]
    problems += [*check_writers(), *check_commands(), *check_circles(), *check_revisions()]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems.")


def check_folder(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (problem := check_size(node)) is not None:
                yield f"{file.relative_to(folder.parent)}:{problem}"


def check_size(node: ast.AST) -> str | None:
    if isinstance(node, ast.ClassDef):
        methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
        if methods > MAX_METHODS:
            return f"{node.lineno}: {node.name} has {methods} methods, at most {MAX_METHODS} are allowed"
    return None


def check_writers() -> Iterator[str]:
    """Yield the tables that several packages change."""
    tables = dict(TABLE.findall((PACKAGE / "storage" / "tables.py").read_text()))
    writers: dict[str, set[str]] = defaultdict(set)
    for file in PACKAGE.rglob("*.*"):
        if file.suffix == ".sql" and "migrations" not in file.parts:
            changed = CHANGED_BY_SQL.findall(COMMENT.sub("", file.read_text()))
            found = {name for name in changed if name in tables.values()}
        elif file.suffix == ".py" and "migrations" not in file.parts:
            found = {tables[name] for name in CHANGED_BY_CODE.findall(file.read_text()) if name in tables}
        else:
            continue
        for name in found:
            writers[name].add(package_of(file))
    for name, packages in sorted(writers.items()):
        owners = {each for each in packages if name not in SHARED.get(each, ())}
        if len(owners) != 1:
            yield f"table {name}: {', '.join(sorted(packages))} change it; move the statements to one package"


def check_circles() -> Iterator[str]:
    """Yield a circle of modules that import each other, if there is one. Imports in functions count too."""
    graph = grimp.build_graph("mailwright", exclude_type_checking_imports=True, cache_dir=None)
    imported = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        yield f"{' → '.join(reversed(error.args[1]))}: a circle of imports; move what both need below them"


def check_revisions() -> list[str]:
    """Return the differences between the tables in the code and those that the revisions create."""
    command = (sys.executable, "-m", "tools.revision", "--check")
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout.splitlines()


def check_commands() -> Iterator[str]:
    """Yield the lines that name a command of the CLI although other interfaces may show them."""
    for file in sorted(PACKAGE.rglob("*.py")):
        if package_of(file) in INTERFACES:
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if COMMAND.search(line):
                yield f"{file.relative_to(CHECKOUT)}:{number}: names a command; `cli/exit_codes.py` can add it"


def package_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).parts
    return "/".join(parts[:2]) if parts[0] == "sources" and len(parts) > 2 else parts[0]


if __name__ == "__main__":
    main()
