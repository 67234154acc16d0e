"""Find the list of an email that names none in a field of its own: the same rule wherever email is accepted.

An email is bulk email of the list that its List-Id names, and of the list whose key is one of its tags if it has a
List-Unsubscribe header. A tag alone says nothing, because receipts have tags too. A List-Id that names no list of the
tenant stays as it is: forges, forums and mailing list managers write one in each notification.
"""

import re
from collections.abc import Collection, Mapping, Set
from typing import Final

from mailwright.content.headers import UNSUBSCRIBE_HEADERS
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.api.validation import FieldError, RequestInvalid

_LIST_ID: Final = "list-id"
_LIST_UNSUBSCRIBE: Final = "list-unsubscribe"
_IN_BRACKETS: Final = re.compile(r"<([^<>]*)>")


@dataclass(frozen=True, slots=True)
class NamedLists:
    """What may be the key of a list: the first label of the List-Id, and tags."""

    list_id: str | None
    tags: frozenset[str]

    @property
    def keys(self) -> frozenset[str]:
        return self.tags if self.list_id is None else self.tags | {self.list_id}

    def choose(self, existing: Set[str], tags_field: str = "tags") -> str | None:
        """Return the key of the list, if one of the `existing` keys is named. Raise if tags name several."""
        if self.list_id in existing:
            return self.list_id
        found = self.tags & existing
        if len(found) > 1:
            reason = f"names several lists, {', '.join(sorted(found))}; keep one of them"
            raise RequestInvalid([FieldError(tags_field, "INVALID", reason)])
        return next(iter(found), None)


NO_LISTS: Final = NamedLists(None, frozenset())


def find_named_lists(headers: Mapping[str, str], tags: Collection[str] | None) -> NamedLists:
    """Return what the headers of an email and its tags name."""
    names = {name.lower() for name in headers}
    if _LIST_ID not in names and (not tags or _LIST_UNSUBSCRIBE not in names):
        return NO_LISTS
    return NamedLists(list_of_header(headers), frozenset(tags or ()) if _LIST_UNSUBSCRIBE in names else frozenset())


def list_of_header(headers: Mapping[str, str]) -> str | None:
    """Return the key of the list that a List-Id names: `news` of `Our news <news.example.com>`."""
    value = next((value for name, value in headers.items() if name.lower() == _LIST_ID), "")
    found = _IN_BRACKETS.search(value)
    return (found[1] if found else value).strip().partition(".")[0].lower() or None


def without_unsubscribe(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers without those that Mailwright writes for a list."""
    return {name: value for name, value in headers.items() if name.lower() not in UNSUBSCRIBE_HEADERS}
