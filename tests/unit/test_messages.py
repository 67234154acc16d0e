"""The values of a message that are immutable by convention."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import mailwright
from mailwright.domain.message import Claimed

PACKAGES = ("worker", "pipeline", "outbox")


def assigned_attributes(tree: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes of other objects than `self` that the code assigns or deletes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and ast.unparse(node.value) != "self":
            yield node


def test_no_code_changes_a_claimed_message() -> None:
    """`Claimed` is not frozen, because a frozen class takes longer to construct."""
    names = {field.name for field in fields(Claimed)}
    [root] = mailwright.__path__
    changes = [
        f"{path}:{attribute.lineno}: {ast.unparse(attribute)}"
        for package in PACKAGES
        for path in Path(root, package).rglob("*.py")
        for attribute in assigned_attributes(ast.parse(path.read_text()))
        if attribute.attr in names
    ]
    assert not changes
