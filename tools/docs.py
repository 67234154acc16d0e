"""Generate the parts of docs/ that follow from the code: settings, commands, OpenAPI, tests of promises.

Prose is written by hand; the tool writes only between `<!-- made: name -->` and `<!-- end -->`, the last column of the
tables in docs/promises.md, docs/openapi.json, and the generated modules of the Python client. `--check` writes
nothing and lists outdated pages.
"""

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

from client.generate import generate
from tools import translations

CHECKOUT = Path(__file__).resolve().parent.parent
DOCS = CHECKOUT / "docs"
PROMISES = DOCS / "promises.md"

# Options of every command, documented once.
ELSEWHERE = ("help", "install_completion", "show_completion")

_PROMISE_ROW = re.compile(r"^\| `(?P<id>[a-z0-9-]+)` \| (?P<promise>.*?) \| .*\|$", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the pages of docs/ that are made from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is outdated")
    is_check = parser.parse_args().check
    outdated = [page for page, text in made() if not page.exists() or page.read_text(encoding="utf-8") != text]
    if is_check and outdated:
        sys.exit(f"outdated: {', '.join(_name(page) for page in outdated)}; run `make docs`")
    written = dict(made()) if outdated else {}
    for page in outdated:
        page.write_text(written[page], encoding="utf-8")
        print(f"{_name(page)} updated.")
    if not is_check:
        generate()
    problems = [*unmatched(), *translations.problems()]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)


def made() -> Iterator[tuple[Path, str]]:
    """Yield every generated page and catalogue with its expected text."""
    yield from pages()
    yield from translations.made()


def pages() -> Iterator[tuple[Path, str]]:
    yield _filled("configuration.md", {"settings": settings})
    yield _filled("commands.md", {"commands": commands})
    yield DOCS / "openapi.json", openapi()
    yield PROMISES, guarded(PROMISES.read_text(encoding="utf-8"), guards())


def _filled(name: str, parts: Mapping[str, Callable[[], str]]) -> tuple[Path, str]:
    page = DOCS / name
    text = page.read_text(encoding="utf-8")
    for part, make in parts.items():
        begin = f"<!-- made: {part} -->"
        head, found, rest = text.partition(begin)
        _, closed, tail = rest.partition("<!-- end -->")
        if not found or not closed:
            sys.exit(f"docs/{name} has no {begin} … <!-- end --> to write between.")
        text = f"{head}{begin}\n{make()}{closed}{tail}"
    return page, text


# Settings.


def settings() -> str:
    from mailwright.ops.provider_kinds import KINDS  # noqa: PLC0415 - only this page needs it
    from mailwright.ops.secret_files import file_variables  # noqa: PLC0415 - only this page needs it
    from mailwright.ops.settings import Settings  # noqa: PLC0415 - only this page needs it
    from mailwright.ops.stored import STORABLE  # noqa: PLC0415 - only this page needs it

    own = {name for kind in KINDS.values() for name in getattr(kind.fields, "__annotations__", ())}
    general = [name for name in Settings.model_fields if name not in own]
    # The settings of the providers follow those that several providers share.
    place = general.index("oauth_scope") + 1
    names = (*general[:place], *(name for name in Settings.model_fields if name in own), *general[place:])
    fields = {name: Settings.model_fields[name] for name in names}
    rows, files = [], file_variables(fields)
    for name, field in fields.items():
        file = files.get(str(field.alias))
        names = f"`{field.alias}`" if file is None else f"`{field.alias}`<br>or `{file}`"
        rows.append((names, f"`{name}`", _meaning(field), _default(field), "yes" if name in STORABLE else ""))
    return _table(("environment", "in the file", "meaning", "default", "dashboard"), rows)


def _meaning(field: Any) -> str:
    choices = [choice for choice in get_args(field.annotation) if isinstance(choice, str)]
    meaning = str(field.description).replace("<", "&lt;")
    return f"{meaning} (one of {', '.join(choices)})" if choices else meaning


def _default(field: Any) -> str:
    return "" if field.default is None else f"`{field.default}`"


# Commands.


def commands() -> str:
    import typer  # noqa: PLC0415
    from click import Context  # noqa: PLC0415

    from mailwright.cli import COMMANDS, app  # noqa: PLC0415

    root: Any = typer.main.get_command(app)
    sections = []
    for panel, names in groupby(COMMANDS, key=itemgetter(0)):
        sections.append(f"## {panel}\n")
        for _, name, line in names:
            _, command, _ = root.resolve_command(Context(root), [name])
            rows = list(_described(f"mailwright {name}", command))
            summary = f"{line}\n\n" if len(rows) > 1 else ""
            sections.append(f"### {name}\n\n{summary}{_table(('command', 'what it does'), rows)}")
    return "\n".join(sections)


def _described(path: str, command: Any) -> Iterator[tuple[str, str]]:
    below: Mapping[str, Any] = getattr(command, "commands", {})
    for name, each in below.items():
        yield from _described(f"{path} {name}", each)
    if not below:
        yield f"`{' '.join([path, *_usage(command)])}`", _first_paragraph(command.help)


def _usage(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            metavar = (parameter.metavar or parameter.name.upper()).replace("[", "").replace("]", "")
            yield metavar if parameter.required else f"[{metavar}]"
    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.name not in ELSEWHERE:
            option = "/".join([*parameter.opts, *parameter.secondary_opts])
            yield option if parameter.required else f"[{option}]"


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").split("\n\n")[0].split())


# The API.


def openapi() -> str:
    """Made without a database: nothing connects before the first request."""
    from mailwright.app.wiring import build_engine  # noqa: PLC0415
    from mailwright.domain.clock import SystemClock  # noqa: PLC0415
    from mailwright.ops.settings import Settings  # noqa: PLC0415
    from mailwright.storage.database import Database  # noqa: PLC0415
    from mailwright.web.app import create_app  # noqa: PLC0415

    settings = Settings.model_construct(base_url="http://127.0.0.1:8025", provider="mailbox")
    engine = build_engine(settings, SystemClock(), Database("sqlite:///never-opened.db"))
    return json.dumps(create_app(engine).openapi(), indent=2, ensure_ascii=False, sort_keys=True) + "\n"


# Promises.


def promised(text: str) -> dict[str, str]:
    """Return each promise of the page by its id."""
    return {row["id"]: row["promise"] for row in _PROMISE_ROW.finditer(text)}


def guarded(text: str, found: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Return the page with a new last column. The sentences stay as they are."""

    def row(match: re.Match[str]) -> str:
        return f"| `{match['id']}` | {match['promise']} | {_guards_cell(found.get(match['id'], ()))} |"

    return _PROMISE_ROW.sub(row, text)


def _guards_cell(tests: Sequence[tuple[str, str]]) -> str:
    files = sorted({file for file, _ in tests})
    return "<br>".join(f"`{file}`" for file in files) if files else "**no test**"


def guards() -> dict[str, list[tuple[str, str]]]:
    """Map each promise to the tests that name it, by parsing the test files."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for file in sorted((CHECKOUT / "tests").rglob("test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        path = file.relative_to(CHECKOUT / "tests").as_posix()
        for name, ids in _marked(tree, _module_promises(tree)):
            for promise in ids:
                found[promise].append((path, name))
    return found


def _marked(node: ast.AST, inherited: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            own = _promises(child.decorator_list)
            yield from _marked(child, (*inherited, *own))
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and child.name.startswith("test"):
            yield child.name, tuple(dict.fromkeys((*inherited, *_promises(child.decorator_list))))


def _module_promises(tree: ast.Module) -> tuple[str, ...]:
    return tuple(
        promise
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)
        for promise in _promises(list(ast.walk(node.value)))
    )


def _promises(nodes: Sequence[ast.AST]) -> tuple[str, ...]:
    return tuple(
        str(argument.value)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "promise"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    )


def unmatched() -> list[str]:
    """Return promises without a test, and tests that refer to unknown promises."""
    sentences, found = promised(PROMISES.read_text(encoding="utf-8")), guards()
    unknown = [
        f"docs/promises.md has no sentence for `{promise}`, which {'::'.join(found[promise][0])} names; "
        "add a row and run `make docs`."
        for promise in sorted(set(found) - set(sentences))
    ]
    unguarded = [
        f'docs/promises.md promises `{promise}`, and no test carries @pytest.mark.promise("{promise}").'
        for promise in sorted(set(sentences) - set(found))
    ]
    return unknown + unguarded


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _name(page: Path) -> str:
    return page.relative_to(CHECKOUT).as_posix()


if __name__ == "__main__":
    main()
