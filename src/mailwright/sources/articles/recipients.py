"""Find the recipients of an article: contacts and their divisions, in the order of addresses.

The attribute `ocd_ids` holds a contact's divisions, as a list or as text separated by commas or semicolons.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, func, or_, select

from mailwright.audience import contact_fields, lists
from mailwright.audience.lists import GENERAL
from mailwright.audience.segments import audience
from mailwright.domain.clock import Instant
from mailwright.domain.divisions import OCD_IDS, division_ids
from mailwright.domain.errors import InvalidInput
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.sources.articles import divisions
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import json_boolean, json_text, json_value, lower_ascii, position
from mailwright.storage.tables import contacts

# Reserved names in a filter, which do not refer to attributes.
LIST: Final = "list"
OCD_ID: Final = "ocd_id"

MAX_VALUE_LENGTH: Final = 255


@dataclass(slots=True)
class ArticleRecipient:
    """A recipient. Immutable by convention: `frozen` would double the cost of creating one for every contact."""

    contact_key: int
    email: str
    name: str | None
    attributes: Mapping[str, Any]
    divisions: tuple[str, ...]


@dataclass(slots=True)
class RecipientGroup:
    """A number of recipients with the same divisions and the same values of all filtered attributes."""

    attributes: Mapping[str, Any]
    divisions: tuple[str, ...]
    number: int


@dataclass(frozen=True, slots=True)
class AudienceCondition:
    """One condition of a filter, prepared for comparison."""

    name: str
    value: str  # in lower case
    endings: tuple[str, ...]  # endings of division ids that also match

    def holds_for(self, recipient: ArticleRecipient | RecipientGroup) -> bool:
        if self.name == OCD_ID:
            return self.value in recipient.divisions
        attribute = recipient.attributes.get(self.name)
        if attribute is not None and _lower(contact_fields.as_text(attribute)) == self.value:
            return True
        for each in recipient.divisions:  # noqa: SIM110 - called for every contact, and `any` costs twice as much
            if each.endswith(self.endings):
                return True
        return False

    def may_hold(self) -> ColumnElement[bool]:
        """Return a SQL pre-filter. It may let contacts through that do not match, but never excludes a match."""
        text = lower_ascii(contacts.c.attributes)
        if self.name == OCD_ID:
            return position(text, self.value) > 0
        return or_(
            lower_ascii(json_text(contacts.c.attributes, self.name)) == self.value,
            json_boolean(contacts.c.attributes, self.name) == self.value,
            *(position(text, ending) > 0 for ending in self.endings),
        )


@dataclass(frozen=True, slots=True)
class ArticleAudience:
    """The subscribers of a list for whom all conditions hold."""

    list_key: str
    conditions: tuple[AudienceCondition, ...] = ()

    def includes(self, recipient: ArticleRecipient | RecipientGroup) -> bool:
        return all(condition.holds_for(recipient) for condition in self.conditions)


def divisions_of(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    return division_ids(attributes.get(OCD_IDS))


async def resolve_audience(
    tx: Transaction, tenant_id: int, article_key: str, given: Mapping[str, str]
) -> ArticleAudience:
    """Parse the filter and choose the list: the one it names, else the one with the article's key, else `general`."""
    for name, value in sorted(given.items()):
        field = f"audience_filter.{name}"
        if not 1 <= len(value.strip()) <= MAX_VALUE_LENGTH or not value.isprintable():
            raise InvalidInput(
                "must have 1 to {max_value_length} printable characters", field=field, max_value_length=MAX_VALUE_LENGTH
            )
        if name == OCD_ID:
            divisions.parse(value, field=field)
        elif name != LIST and not _is_name(name):
            raise InvalidInput("must be an attribute or a type of division, for example state or county", field=field)
    existing = await lists.existing_keys(tx, tenant_id, [article_key, given.get(LIST, GENERAL)])
    if LIST in given and given[LIST] not in existing:
        raise InvalidInput("There is no list {given}", field=f"audience_filter.{LIST}", given=given[LIST])
    list_key = given.get(LIST) or (article_key if article_key in existing else GENERAL)
    return ArticleAudience(list_key, conditions_of(given))


async def page(
    tx: Transaction, tenant_id: int, wanted: ArticleAudience, now: Instant, *, after: str, limit: int
) -> list[ArticleRecipient]:
    """Return the next sendable contacts. The SQL filter is approximate, so check each contact with `includes`."""
    columns = (contacts.c.id, contacts.c.email, contacts.c.name, contacts.c.attributes)
    sendable = _sendable(tenant_id, wanted, now, after)
    rows: Any = await tx.execute(select(*columns).where(sendable).order_by(contacts.c.email).limit(limit))
    return [_reader(key, email, name, orjson.loads(attributes)) for key, email, name, attributes in rows]


async def recipient_groups(
    tx: Transaction, tenant_id: int, wanted: ArticleAudience, now: Instant, *, after: str, limit: int
) -> tuple[list[RecipientGroup], str]:
    """Return the next `limit` contacts, grouped by divisions and filtered attributes, and their last address.

    The database does the grouping, so that a million contacts in ten divisions return only a few rows.
    After the last page, the address is an empty string.
    """
    names = sorted({OCD_IDS, *(each.name for each in wanted.conditions if each.name != OCD_ID)})
    sendable = _sendable(tenant_id, wanted, now, after)
    some = (
        select(contacts.c.email, contacts.c.attributes)
        .where(sendable)
        .order_by(contacts.c.email)
        .limit(limit)
        .subquery()
    )
    values_of_names = [json_value(some.c.attributes, name).label(f"value_{place}") for place, name in enumerate(names)]
    values = select(some.c.email, *values_of_names).subquery()
    own = [values.c[each.name] for each in values_of_names]
    # Only the database knows the last address, because it sorts by its own collation.
    last = func.max(func.max(values.c.email)).over()
    rows: Any = await tx.execute(select(func.count(), last, *own).group_by(*own))
    groups = []
    for number, _, *texts in rows:
        attributes = {name: orjson.loads(text) for name, text in zip(names, texts, strict=True) if text is not None}
        groups.append(RecipientGroup(attributes, divisions_of(attributes), number))
    return groups, rows[0][1] if rows else ""


def _sendable(tenant_id: int, wanted: ArticleAudience, now: Instant, after: str) -> ColumnElement[bool]:
    return and_(
        audience(tenant_id, () if wanted.list_key == GENERAL else (wanted.list_key,), None, now),
        contacts.c.email > after,
        *(condition.may_hold() for condition in wanted.conditions),
    )


def _reader(contact_key: int, email: str, name: str | None, attributes: dict[str, Any]) -> ArticleRecipient:
    return ArticleRecipient(contact_key, email, name, attributes, divisions_of(attributes))


def conditions_of(given: Mapping[str, str]) -> tuple[AudienceCondition, ...]:
    """Parse conditions: `{"state": "OH"}` matches the attribute, or a division id that ends in `/state:oh`."""
    conditions = []
    for name, value in sorted(given.items()):
        if name != LIST:
            lowered = _lower(value.strip())
            types = divisions.STATES if name == "state" else (name,)
            endings = tuple(f"/{type_}:{'_'.join(lowered.split())}" for type_ in types)
            conditions.append(AudienceCondition(name, lowered, endings))
    return tuple(conditions)


def _is_name(name: str) -> bool:
    try:
        contact_fields.check_attribute_name(name)
    except contact_fields.InvalidContact:
        return False
    return True


def _lower(text: str) -> str:
    """Convert only A to Z to lower case, as the database does."""
    return text.translate(_FOLDED)


_FOLDED: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
