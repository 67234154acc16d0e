"""Locked blocks: editors work around them, and fill the slots in them."""

import copy
from typing import Any

import pytest

from mailwright.content.blocks.document import parse_document
from mailwright.content.blocks.locked import check_locked
from mailwright.content.template import InvalidTemplate

SLOT = {"id": "s", "type": "slot", "name": "intro", "kind": "text", "value": "Hello"}
BLOCKS: list[dict[str, Any]] = [
    {"id": "h", "type": "header", "locked": True},
    {"id": "t", "type": "text", "html": "free"},
    {"id": "c", "type": "columns", "locked": True, "columns": [{"blocks": [SLOT]}, {"blocks": []}]},
    {"id": "f", "type": "footer", "locked": True},
]


def document(blocks: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return parse_document({"version": 1, "blocks": blocks, **changes}).to_json()


def test_free_blocks_and_slot_values_can_change() -> None:
    changed = copy.deepcopy(BLOCKS)
    changed[1]["html"] = "other"
    changed[2]["columns"][0]["blocks"][0]["value"] = "Welcome"
    changed.insert(1, {"id": "new", "type": "spacer"})
    check_locked(document(BLOCKS), document(changed))


@pytest.mark.parametrize("change", ["delete", "edit", "unlock", "move", "nest", "slot", "format"])
def test_locked_block_cannot_be_changed_moved_or_deleted(change: str) -> None:
    changed = copy.deepcopy(BLOCKS)
    match change:
        case "delete":
            del changed[3]
        case "edit":
            changed[3]["html"] = "mine"
        case "unlock":
            changed[3]["locked"] = False
        case "move":
            changed.insert(0, changed.pop())
        case "nest":
            changed.append({"id": "if", "type": "condition", "segment": "vip", "blocks": [changed.pop()]})
        case "slot":
            changed[2]["columns"][0]["blocks"] = []
    after = None if change == "format" else document(changed)
    with pytest.raises(InvalidTemplate, match="Only an administrator"):
        check_locked(document(BLOCKS), after)


def test_mjml_of_a_developer_cannot_be_changed() -> None:
    before = document([SLOT], mjml="<mjml><mj-body></mj-body></mjml>")
    check_locked(before, document([{**SLOT, "value": "Other"}], mjml=before["mjml"]))
    for after in (document([SLOT]), document([SLOT], mjml="<mjml></mjml>"), document([], mjml=before["mjml"])):
        with pytest.raises(InvalidTemplate, match="Only an administrator"):
            check_locked(before, after)
