"""The services of compose.scale.yaml as processes: commands, environment, secrets and health checks work together.

PostgreSQL and Valkey are real. Containers are not needed, so this runs everywhere; `make image-test` tests the image.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
import urllib.request
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from mailwright.storage.revision import newest_revision
from tests.acceptance.commands import Commands, until
from tests.engines import PostgresServer, Valkey
from tests.ports import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.scale.yaml").read_text(encoding="utf-8"))["services"]
BODY = b'{"to": "ada@example.com", "subject": "From a worker", "html": "<p>It works.</p>"}'

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl here")


async def test_services_of_compose_send_an_email_together(
    tmp_path: Path, postgres_server: PostgresServer, valkey: Valkey
) -> None:
    secrets, data = tmp_path / "secrets", tmp_path / "data"
    data.mkdir()
    subprocess.run(["sh", shutil.copy(DEPLOY / "make-secrets.sh", tmp_path)], check=True, capture_output=True)
    url = await postgres_server.create_empty()
    (secrets / "database_url").chmod(0o600)
    (secrets / "database_url").write_text(f"{url}\n")

    def settings(name: str) -> dict[str, str]:
        """Return the environment of a service, with the places of this machine."""
        here = {"/run/secrets": str(secrets), "redis://valkey:6379/0": valkey.url}
        found = {"MAILWRIGHT_STATE": str(tmp_path / "state"), **SERVICES[name]["environment"]}
        for place, ours in here.items():
            found = {key: value.replace(place, ours) for key, value in found.items()}
        return {key: re.sub(r"\$\{MAILWRIGHT_DOMAIN:[^}]*\}", "mail.example.com", each) for key, each in found.items()}

    commands = Commands(data)
    assert newest_revision() in (await commands.ok(*SERVICES["migrate"]["command"], **settings("migrate"))).out
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            commands.service(*SERVICES["server"]["command"], **settings("server"), MAILWRIGHT_PORT="0")
        )
        address = (await server.logged("api_started"))["address"]
        metrics = [str(free_port()) for _ in range(SERVICES["worker"]["deploy"]["replicas"])]
        for port in metrics:
            given = settings("worker") | {"MAILWRIGHT_METRICS_PORT": port}
            worker = await stack.enter_async_context(commands.service(*SERVICES["worker"]["command"], **given))
            await worker.logged("worker_started")
        key = (await commands.ok("key", "create", **settings("server"))).out.strip()
        outbox_id = (await asyncio.to_thread(_call, f"{address}/v1/email/send", key, BODY))["outboxId"]
        email = data / f"var/mailbox/new/{outbox_id}.mailwright"
        await until(email.exists, "a worker sends the email")
        for name, port in (("server", address.rpartition(":")[2]), *(("worker", port) for port in metrics)):
            await asyncio.to_thread(_check_health, name, port)
    assert "1 accepted = 1 sent" in (await commands.ok("audit", **settings("server"))).out
    await postgres_server.drop_empty(url)


def _check_health(name: str, port: str) -> None:
    """Run the health check of a service at the port of this machine."""
    kind, program, *arguments = SERVICES[name]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python3")
    words = [re.sub(r":\d{4}/", f":{port}/", each) for each in arguments]
    subprocess.run([sys.executable, *words], check=True)


def _call(url: str, key: str, body: bytes) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60) as answer:
        return json.load(answer)
