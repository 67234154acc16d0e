"""Plugins: the example is installed and used, and one that cannot be used never stops Mailwright."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from mailwright.actions.providers import named_provider_response
from mailwright.app.providers import make_route, verify_providers
from mailwright.app.wiring import make_workers, open_engine
from mailwright.checks.installation import check
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput
from mailwright.domain.explanation import ExplanationState
from mailwright.domain.states import EventType, Status
from mailwright.ops import plugins
from mailwright.ops.plugins import PLUGIN_API, PROVIDERS, SOURCES, load_plugins
from mailwright.ops.provider_kind import ProviderKind
from mailwright.ops.provider_kinds import KINDS
from mailwright.ops.source_kind import SourceKind
from mailwright.outbox.explain import explain
from mailwright.storage.tables import provider_configurations
from tests.builders import DEFAULT_TENANT, a_message, settings_for, statuses
from tests.conftest import DatabaseAddress
from tests.standins.smtp_sink import SmtpSink

CHECKOUT = Path(__file__).parents[3]
EXAMPLE = CHECKOUT / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the example and install it into a folder, without the network."""
    target = tmp_path_factory.mktemp("plugin")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(EXAMPLE)], check=True, capture_output=True)
    return target


def run_with(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(CHECKOUT)])}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False
    )


async def test_example_sends_and_its_event_returns(
    engine: DatabaseAddress, installed_example: Path, tmp_path: Path
) -> None:
    done = await asyncio.to_thread(run_with, installed_example, "-m", "tests.plugin_session", engine.url, str(tmp_path))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kinds"] == ["jsonlines"]
    assert (found["polled"], found["files"]) == ([2, 1], ["first.sent", "wrong.refused"])
    assert found["sent"] == [["ada@example.com"]]  # Submitted twice with the same key, sent once.
    assert found["answers"] == [403, 200]
    assert found["events"][-2:] == [EventType.SENT, EventType.BOUNCED]
    assert found["findings"] == [f"jsonlines: {tmp_path / 'sent.jsonl'}"]


def test_example_passes_its_own_tests(installed_example: Path) -> None:
    done = run_with(
        installed_example, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", str(EXAMPLE / "tests")
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Plugins that cannot be used.

KIND_TEXT = """
from typing import Annotated
from mailwright.ops.provider_kind import ProviderKind, ProviderSettings
from pydantic import Field

class Fields(ProviderSettings):
    {field}: Annotated[str | None, Field(alias="{alias}")] = None

KIND = ProviderKind(name="{name}", package="x", label="x", summary="x", fields=Fields, plugin_api={api})
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._declared_groups.cache_clear()
    yield tmp_path
    plugins._declared_groups.cache_clear()


def write_plugin(site: Path, module: str, name: str, text: str, *, group: str = PROVIDERS) -> None:
    plugins._declared_groups.cache_clear()
    (site / f"{module}.py").write_text(text)
    folder = site / f"{module}-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.2\n")
    (folder / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:KIND\n")


def kind_text(
    name: str = "acme", field: str = "acme_key", alias: str = "ACME_KEY", api: int | None = PLUGIN_API
) -> str:
    return KIND_TEXT.format(name=name, field=field, alias=alias, api=api)


def test_usable_plugin_is_loaded(site: Path) -> None:
    write_plugin(site, "acme_good", "acme", kind_text())
    found = load_plugins(PROVIDERS, ProviderKind, KINDS)
    assert ([*found.kinds], found.problems) == (["acme"], {})


@pytest.mark.parametrize(
    ("module", "name", "text", "words"),
    [
        ("p_import", "acme", "import a_module_that_is_not_there", "cannot be imported (ModuleNotFoundError"),
        ("p_syntax", "acme", "KIND = (", "cannot be imported (SyntaxError"),
        ("p_exit", "acme", "raise SystemExit(3)", "cannot be imported (SystemExit"),
        ("p_empty", "acme", "", "cannot be imported (AttributeError"),
        ("p_type", "acme", "KIND = 7", "is not a ProviderKind"),
        ("p_built_in", "smtp", kind_text("smtp"), "smtp is built in"),
        ("p_name", "Acme-2", kind_text("Acme-2"), "its name must consist of"),
        ("p_other", "acme", kind_text("other"), "its entry point is called acme, but its kind other"),
        ("p_version", "acme", kind_text(api=PLUGIN_API + 1), f"written for version {PLUGIN_API + 1}"),
        ("p_no_version", "acme", kind_text(api=None), "written for version None"),
        ("p_field", "acme", kind_text(field="base_url"), "setting base_url must begin with acme_"),
        ("p_alias", "acme", kind_text(alias="MAILWRIGHT_SECRET_KEY"), "setting acme_key must begin with acme_"),
    ],
)
def test_unusable_plugin_becomes_a_sentence(site: Path, module: str, name: str, text: str, words: str) -> None:
    write_plugin(site, module, name, text)
    found = load_plugins(PROVIDERS, ProviderKind, KINDS)
    assert not found.kinds
    assert words in found.problems[name]
    assert f"the plugin {name} of {module} 1.2 cannot be used" in found.problems[name]


def test_two_plugins_with_one_name_are_both_refused(site: Path) -> None:
    write_plugin(site, "twin_a", "acme", kind_text())
    write_plugin(site, "twin_b", "acme", kind_text())
    found = load_plugins(PROVIDERS, ProviderKind, KINDS)
    assert (found.kinds, [*found.problems]) == ({}, ["acme"])


def test_sources_have_their_own_group(site: Path) -> None:
    write_plugin(site, "a_source", "acme", kind_text(), group=SOURCES)
    assert not load_plugins(PROVIDERS, ProviderKind, KINDS).kinds
    assert "is not a SourceKind" in load_plugins(SOURCES, SourceKind, ()).problems["acme"]


# Stored providers of a kind that is gone.


async def test_messages_wait_for_a_removed_provider_kind(engine: DatabaseAddress, clock: ManualClock) -> None:
    async with SmtpSink() as sink:
        settings = settings_for(engine.url, provider="smtp", smtp_url=sink.url)
        async with open_engine(settings, clock) as opened:
            await opened.providers.create("theirs", "smtp", {"MAILWRIGHT_SMTP_URL": sink.url}, actor="ada")
            await opened.providers.set_route(DEFAULT_TENANT, None, "theirs", actor="ada")
            async with opened.database.write() as tx:
                await tx.execute(update(provider_configurations).values(kind="acme"))
        async with open_engine(settings, clock) as opened, asyncio.timeout(60):
            [accepted] = await opened.acceptor.accept([a_message()])
            workers = await make_workers(opened)
            running = asyncio.create_task(workers.run())
            found = None
            while found is None or found.state is not ExplanationState.PROVIDER_UNAVAILABLE:
                found = await explain(opened.database, opened.clock, accepted.outbox_id, tenant_id=DEFAULT_TENANT)
                await asyncio.sleep(0.01)
            workers.stop()
            await running
            assert "no installed package adds the provider acme" in (found.provider_error or "")
            assert await statuses(opened.database) == {Status.PENDING: 1}
            everything = await opened.providers.list_all()
            [stored] = everything.configurations
            shown = named_provider_response(stored, everything, settings)
            assert (shown.kind, shown.webhook_url, shown.settings) == ("acme", None, [])
            assert "install its plugin again" in (shown.problem or "")
            tested = await opened.providers.test("theirs")
            assert not tested.is_ok
            with pytest.raises(InvalidInput):
                await opened.providers.edit("theirs", {}, actor="ada")
        assert not sink.messages
    findings = [each async for each in check(settings)]
    assert any("acme" in each.summary for each in findings if each.verdict.name == "PROBLEM")


async def test_unknown_provider_kind_is_never_free_to_send(clock: ManualClock) -> None:
    settings = settings_for("sqlite://", provider="mailbox").model_copy(update={"provider": "acme"})
    verify_providers(settings)
    route = make_route(settings, clock)
    [member] = route.members
    assert (member.name, member.is_free(())) == ("acme", False)
    assert "PROVIDER_UNUSABLE" in str(getattr(member.breaker, "explanation", ""))
    assert not (await member.provider.check()).is_ok


async def test_plugin_that_fails_later_holds_its_messages(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = replace(KINDS["smtp"], name="acme", package="a_package_that_is_not_there", plugin_api=PLUGIN_API)
    monkeypatch.setitem(KINDS, "acme", broken)
    settings = settings_for("sqlite://", provider="mailbox").model_copy(update={"provider": "acme"})
    verify_providers(settings)
    [member] = make_route(settings, clock).members
    found = await member.provider.check()
    assert "the plugin acme failed (ModuleNotFoundError" in found.summary
