"""The TypeScript client: built by its real compiler, run by Node against a real server."""

import asyncio
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.assets.hook import node
from tools.typescript_client import PACKAGE, build, pack

from mailwright.events.outbound.signature import sign
from mailwright.web.api_reference.document import Reference
from tests.contract.api.test_client import Served, served

__all__ = ["served"]  # The fixture of the Python client's tests.

TESTS = Path(__file__).parents[2] / "typescript"
MANUAL = Path(__file__).parents[3] / "docs/typescript-client.md"
TYPESCRIPT = {"module": "NodeNext", "target": "ES2022", "lib": ["ES2022", "DOM"], "types": [], "strict": True}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has installed the package."""
    folder = tmp_path_factory.mktemp("typescript")
    build(folder / "node_modules/mailwright-client")
    for file in TESTS.iterdir():
        (folder / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    example, _, webhook = re.findall(r"```ts\n(.*?)```", MANUAL.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "reference.ts").write_text(_reference())
    declared = "declare const process: { env: Record<string, string> };\ndeclare const secret: string;\n"
    (folder / "example.ts").write_text(example.replace(";\n", f";\n{declared.splitlines()[0]}\n", 1))
    (folder / "webhook.ts").write_text(webhook.replace(";\n", f";\n{declared}", 1))
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "tsconfig.json").write_text(json.dumps({"compilerOptions": TYPESCRIPT | {"noEmit": True}}))
    return folder


def _reference() -> str:
    """Return a module with the examples of the API reference."""
    groups = Reference(json.loads((MANUAL.parent / "openapi.json").read_text(encoding="utf-8"))).groups.values()
    examples = [each.typescript for group in groups for each in group.operations if each.typescript]
    functions = [
        "\n".join([f"export async function example{number}() {{", *example.splitlines()[2:], "}"])
        for number, example in enumerate(examples)
    ]
    head = 'import { Client } from "mailwright-client";\ndeclare const url: string, key: string, content: Uint8Array;\n'
    return head + "\n".join(functions)


async def run(arguments: Sequence[str], folder: Path, **settings: str) -> str:
    process = await asyncio.create_subprocess_exec(
        node(),
        *arguments,
        cwd=folder,
        env={"PATH": os.environ["PATH"], **settings},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_client_sends_lists_retries_and_verifies(project: Path, served: Served) -> None:
    body = json.dumps({"id": "1", "type": "test", "metadata": {"name": "Größe"}}, ensure_ascii=False)
    signed = f"t=1800000000,v1={sign('whsec_server', 1800000000, body.encode())}"
    settings = {"MAILWRIGHT_URL": served.url, "MAILWRIGHT_API_KEY": served.key, "MAILWRIGHT_SIGNED": signed}
    out = await run(["--test", "client.mjs"], project, **settings, MAILWRIGHT_SIGNED_BODY=body)
    assert out.count("✔") > 10, out
    assert "PENDING" in await run(["example.ts"], project, **settings)


async def test_types_allow_what_works_and_refuse_mistakes(project: Path) -> None:
    compiler = Path(__file__).parents[3] / "tools/assets/node_modules/typescript/bin/tsc"
    await run([str(compiler), "--project", str(project)], project)


def test_package_has_only_the_built_client(tmp_path: Path) -> None:
    listed = pack(tmp_path)
    assert {file.split("/")[0] for file in listed} == {"dist", "README.md", "package.json"}
    assert {"dist/index.js", "dist/index.d.ts", "dist/webhooks.js"} <= set(listed)
    package = json.loads((PACKAGE / "package.json").read_text())
    assert "dependencies" not in package
