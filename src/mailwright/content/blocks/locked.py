"""Blocks that a developer locked. Only administrators can change, move or delete them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from mailwright.content.blocks.document import InvalidDocument, JsonDocument, iter_blocks
from mailwright.content.template import InvalidTemplate

# The fields of a slot that editors fill, also in a locked document.
_FILLED: Final = frozenset(["value", "alt"])


class _LockedBlock(NamedTuple):
    block_id: str
    parent: str
    content: dict[str, Any]


def check_locked(before: JsonDocument, after: JsonDocument | None) -> None:
    """Raise if `after` locks a block, or changes, moves or removes a locked block or the MJML of a developer.

    `after` is None if the source is no longer a block document.
    """
    locked = list(_locked(before))
    if after is not None:
        _check_new(before, after)
    if not locked and before.get("mjml") is None:
        return
    if after is None:
        raise InvalidTemplate("The email has locked blocks. Only an administrator can change its format.")
    if before.get("mjml") != after.get("mjml"):
        raise InvalidTemplate("A developer owns the MJML of this email. Only an administrator can change it.")
    found = {each.block_id: each for each in _placed(after)}
    for each in locked:
        if found.get(each.block_id) != each:
            raise InvalidDocument(
                "the block is locked. Only an administrator can change, move or delete it.", block_id=each.block_id
            )
    names = {each.block_id for each in locked}
    if [each.block_id for each in _placed(after) if each.block_id in names] != [each.block_id for each in locked]:
        raise InvalidDocument("locked blocks have another order. Only an administrator can move them.")


def check_no_locks(document: JsonDocument) -> None:
    """Raise if a new document of an editor locks blocks or has the MJML of a developer."""
    check_locked({}, document)


def has_locks(document: JsonDocument) -> bool:
    return document.get("mjml") is not None or any(_locked(document))


def _check_new(before: JsonDocument, after: JsonDocument) -> None:
    """Raise if `after` has locks, MJML or slots of a developer that `before` does not have."""
    if before.get("mjml") is None and after.get("mjml") is not None:
        raise InvalidTemplate("Only an administrator can add MJML with slots.")
    known = {each.block_id for each in _locked(before)}
    for each in _locked(after):
        if each.block_id not in known:
            raise InvalidDocument(
                "only an administrator can add slots."
                if after.get("mjml") is not None
                else "only an administrator can lock blocks.",
                block_id=each.block_id,
            )


def _locked(document: JsonDocument) -> Iterator[_LockedBlock]:
    """Yield the locked blocks. In a document with its own MJML, yield every slot."""
    for each in _placed(document):
        if each.content.get("locked") is True or document.get("mjml") is not None:
            yield each


def _placed(document: JsonDocument) -> Iterator[_LockedBlock]:
    for placed in iter_blocks(document):
        yield _LockedBlock(str(placed.block.get("id")), placed.parent, _without_values(placed.block))


def _without_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        is_slot = value.get("type") == "slot"
        return {name: _without_values(each) for name, each in value.items() if not (is_slot and name in _FILLED)}
    return [_without_values(each) for each in value] if isinstance(value, list) else value
