"""`mailwright user` and the scopes of `mailwright key`, in real processes on SQLite."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.commands import Commands, Ended
from tests.warm import warm_command

PASSWORD = "correct horse battery"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path)


def with_password(folder: Path, *words: str, password: str = PASSWORD) -> Ended:
    stored = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [*warm_command(), "user", *words, "--password-stdin"],
        cwd=folder,
        env=stored,
        input=f"{password}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


async def test_users_are_created_listed_changed_and_disabled(commands: Commands, tmp_path: Path) -> None:
    created = with_password(tmp_path, "create", "ada", "--role", "admin")
    assert created.code == 0, created
    assert PASSWORD not in created.out + created.err
    assert with_password(tmp_path, "create", "grace").code == 0
    await commands.ok("user", "role", "grace", "viewer")
    await commands.ok("user", "disable", "grace")
    listed = (await commands.ok("user", "list", "--json")).json
    assert [(user["login"], user["role"], user["disabledAt"] is None) for user in listed] == [
        ("ada", "admin", True),
        ("grace", "viewer", False),
    ]
    link = await commands.ok("user", "link", "ada")
    assert link.out.startswith("http://127.0.0.1:8025/sign-in/link?token=")
    await commands.ok("key", "create", "--owner", "Ada")
    await commands.ok("key", "create")
    await commands.ok("key", "edit", "2", "--owner", "ada")
    assert [key["owner"] for key in (await commands.ok("key", "list", "--json")).json] == ["ada", "ada"]
    for owner in ("grace", "nobody", ""):
        refused = await commands.run("key", "edit", "2", "--owner", owner)
        assert (refused.code, "no enabled user" in refused.err) == (2, True), refused
    await commands.ok("tenant", "create", "acme")
    for refused in (with_password(tmp_path, "create", "linus"), await commands.run("user", "invite", "l@example.com")):
        assert (refused.code, "--tenant, or give access to all of them with --all-tenants" in refused.err) == (2, True)
    assert with_password(tmp_path, "create", "linus", "--tenant", "acme").code == 0
    await commands.ok("user", "invite", "l@example.com", "--all-tenants", "--link")
    last = await commands.run("user", "disable", "ada")
    assert last.code != 0
    assert "The user ada is the last administrator" in last.err


async def test_invalid_login_or_password_creates_no_user(commands: Commands, tmp_path: Path) -> None:
    short = with_password(tmp_path, "create", "ada", password="short")
    assert short.code != 0
    assert "password" in short.err
    assert (await commands.ok("user", "list", "--json")).json == []


async def test_key_has_the_scopes_it_was_created_with(commands: Commands) -> None:
    await commands.ok("key", "create", "--scope", "send", "--scope", "read")
    await commands.ok("key", "create")
    listed = (await commands.ok("key", "list", "--json")).json
    assert [key["scopes"] for key in listed] == [["send", "read"], ["send", "events", "read", "propose", "manage"]]
    assert (await commands.run("key", "create", "--scope", "everything")).code == 2
