"""Check the size of functions and classes. `make check` runs this."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools")
MAX_LINES = 60
MAX_METHODS = 20


def main() -> None:
    problems = [problem for folder in FOLDERS for problem in check_folder(CHECKOUT / folder)]
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} functions or classes are too large. Split them where their subject changes.")


def check_folder(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (problem := check_size(node)) is not None:
                yield f"{file.relative_to(folder.parent)}:{problem}"


def check_size(node: ast.AST) -> str | None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > MAX_LINES:
            return f"{node.lineno}: {node.name} has {lines} lines, at most {MAX_LINES} are allowed"
    if isinstance(node, ast.ClassDef):
        methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
        if methods > MAX_METHODS:
            return f"{node.lineno}: {node.name} has {methods} methods, at most {MAX_METHODS} are allowed"
    return None


if __name__ == "__main__":
    main()
