"""Actions: every route and command states its permission where it is declared."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import typer

from mailwright.access.roles import Role, Scope
from mailwright.actions import MODULES, load_noun, load_nouns
from mailwright.actions.context import Context
from mailwright.actions.declaration import DeclaredAction, Noun
from mailwright.cli import COMMANDS, DERIVED
from mailwright.cli.derived import make_group
from mailwright.web import app

ACTIONS = [action for noun in load_nouns() for action in noun.actions]
# The number of routes in each module that are written by hand. A number may only become smaller.
HAND_WRITTEN = {
    "articles": 1,
    "contact_events": 1,
    "dropin.segment": 3,
    "email": 3,
    "progress": 1,
    "reports": 1,
}
UNAUDITED = {
    "campaign preflight",
    "contact add_file",
    "contact create",
    "contact preview",
    "dmarc import_file",
    "notify emit",
    "provider check_provider",
}
PACKAGE = Path(app.__file__).parent.parent
OPENAPI = PACKAGE.parent.parent / "docs" / "openapi.json"


def test_action_without_permission_is_refused_when_its_module_is_imported() -> None:
    noun = Noun("thing", "Things.", "/v1/things")
    with pytest.raises(TypeError, match="scope"):
        noun.post(audit="thing.create")(_do_nothing)
    with pytest.raises(TypeError, match="audit"):
        noun.post(scope=Scope.MANAGE)(_do_nothing)


def test_action_must_take_the_placeholders_of_its_path() -> None:
    noun = Noun("thing", "Things.", "/v1/things")
    with pytest.raises(TypeError, match="placeholders"):
        noun.delete("/{thingId}", scope=Scope.MANAGE, audit="thing.delete")(_do_nothing)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda each: f"{each.noun.command} {each.name}")
def test_changing_action_is_audited_and_needs_more_than_read(action: DeclaredAction) -> None:
    is_change, named = action.audit is not None, f"{action.noun.command} {action.name}"
    # These check something or store a file for later; DMARC reports and events come from outside.
    assert is_change is (action.scope not in (Scope.READ, Scope.PLATFORM_READ)) or named in UNAUDITED
    assert action.method != "GET" or not is_change
    assert action.description.endswith(".")


def test_every_operation_of_the_api_names_its_scope() -> None:
    operations = [
        (path, method, operation.get("x-scope"))
        for path, methods in json.loads(OPENAPI.read_text(encoding="utf-8"))["paths"].items()
        if path.startswith("/v1/")
        for method, operation in methods.items()
    ]
    assert operations
    assert [each for each in operations if each[2] not in {*Scope, "administrator", "signature"}] == []


def test_only_listed_routes_are_written_by_hand() -> None:
    endpoints = [
        (route.endpoint.__module__.removeprefix("mailwright.web.api."), method, route.path)  # type: ignore[attr-defined]
        for router in app.ROUTERS
        for route in router.routes
        if route.path.startswith("/v1/")  # type: ignore[attr-defined]
        for method in route.methods  # type: ignore[attr-defined]
    ]
    derived = {(method, path) for module, method, path in endpoints if module == "derived"}
    assert derived == {(action.method, action.path) for action in ACTIONS}
    by_hand = Counter(module for module, _, _ in endpoints if module != "derived")
    assert dict(by_hand) == HAND_WRITTEN


def test_derived_commands_have_no_module_of_their_own() -> None:
    listed = {name for _, name, _ in COMMANDS}
    assert listed >= MODULES.keys() >= DERIVED
    for name in DERIVED:
        assert not (PACKAGE / "cli" / f"{name}.py").exists()


def test_each_option_of_a_command_has_a_help_text() -> None:
    for name in MODULES:
        command: Any = typer.main.get_group(make_group(load_noun(name)))
        for each in command.commands.values():
            assert each.help
            assert not [parameter.name for parameter in each.params if not getattr(parameter, "help", "x")]


def test_webhooks_are_for_administrators() -> None:
    assert {action.role for action in load_noun("webhook").actions} == {Role.ADMIN}


async def _do_nothing(_at: Context) -> None:
    """Do nothing."""
