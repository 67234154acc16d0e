"""The proxies of deploy/ start with their files, pass requests to a running server, and hide its metrics."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.commands import Commands
from tests.ports import free_port
from tests.unit.test_deploy_files import DEPLOY, needs, run

PROXY = DEPLOY / "proxy"
# Until the proxy listens: httpx waits longer before each.
ATTEMPTS = 8


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """The port of a running server."""
    async with Commands(tmp_path).service("serve", "--port", "0", "--no-worker") as service:
        address = (await service.logged("api_started"))["address"]
        yield urlsplit(address).port or 0


@needs("nginx", "nginx-light")
@needs("openssl", "openssl")
async def test_nginx_passes_requests_and_hides_metrics(port: int, tmp_path: Path) -> None:
    subject = ("-subj", "/CN=mail.example.com", "-keyout", "privkey.pem", "-out", "fullchain.pem")
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject, folder=tmp_path)
    plain, secure = free_port(), free_port()
    text = (PROXY / "nginx.conf").read_text(encoding="utf-8")
    for found, used in (
        ("/etc/letsencrypt/live/mail.example.com", str(tmp_path)),
        ("127.0.0.1:8025", f"127.0.0.1:{port}"),
        ("    listen [::]:80;\n", ""),
        ("    listen [::]:443 ssl http2;\n", ""),
        ("listen 80;", f"listen 127.0.0.1:{plain};"),
        ("listen 443 ssl", f"listen 127.0.0.1:{secure} ssl"),
    ):
        assert found in text
        text = text.replace(found, used)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{kind}_temp_path {tmp_path}/{kind}; " for kind in kinds)
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {tmp_path}/pid; error_log stderr; events {{}} "
        f"http {{ access_log off; {folders}\n{text} }}"
    )
    with started("nginx", "-c", str(tmp_path / "nginx.conf")):
        await requests_pass(f"https://127.0.0.1:{secure}")
        async with httpx.AsyncClient() as client:
            moved = await client.get(f"http://127.0.0.1:{plain}/login", headers={"Host": "mail.example.com"})
        assert (moved.status_code, moved.headers["location"]) == (301, "https://mail.example.com/login")


@needs("caddy", "caddy")
async def test_caddy_passes_requests_and_hides_metrics(port: int, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    places = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "CADDY_ADMIN": "off"}
    upstream = {"MAILWRIGHT_DOMAIN": address, "MAILWRIGHT_UPSTREAM": f"127.0.0.1:{port}"}
    file = str(PROXY / "Caddyfile")
    with started("caddy", "run", "--adapter", "caddyfile", "--config", file, **places, **upstream):
        await requests_pass(address)


async def requests_pass(address: str) -> None:
    transport = httpx.AsyncHTTPTransport(verify=False, retries=ATTEMPTS)
    async with httpx.AsyncClient(transport=transport, base_url=address, timeout=30) as client:
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.headers["strict-transport-security"]) == (200, "max-age=31536000")
        assert (await client.get("/metrics")).status_code == 404


@contextmanager
def started(*command: str, **environment: str) -> Iterator[None]:
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)
