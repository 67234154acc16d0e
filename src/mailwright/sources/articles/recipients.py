"""Readers: contacts with the divisions that they live in, asked for in the order of addresses.

The divisions of a reader are the attribute `ocd_ids`, a list, or a text with commas or semicolons as files have it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, func, or_, select

from mailwright.audience import contact_fields, lists
from mailwright.audience.lists import GENERAL
from mailwright.audience.segments import audience
from mailwright.domain.clock import Instant
from mailwright.domain.errors import InvalidInput
from mailwright.sources.articles import divisions
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import json_boolean, json_text, json_value, lower_ascii, position
from mailwright.storage.tables import contacts

OCD_IDS: Final = "ocd_ids"
# Words of a filter that ask for something other than an attribute.
LIST: Final = "list"
OCD_ID: Final = "ocd_id"

MAX_VALUE_LENGTH: Final = 255
_BETWEEN: Final = re.compile(r"[\s,;|]+")
_NO_DIVISIONS: Final[tuple[str, ...]] = ()


@dataclass(slots=True)
class ArticleRecipient:
    """A value that nobody changes. It is made for everyone, and declared frozen it would cost twice as much."""

    contact_key: int
    email: str
    name: str | None
    attributes: Mapping[str, Any]
    divisions: tuple[str, ...]


@dataclass(slots=True)
class RecipientGroup:
    """So many readers who differ in nothing that an article or a filter asks about."""

    attributes: Mapping[str, Any]
    divisions: tuple[str, ...]
    number: int


@dataclass(frozen=True, slots=True)
class AudienceCondition:
    """One word of a filter, in the forms in which it is looked for."""

    name: str
    value: str  # in small letters
    endings: tuple[str, ...]  # of ids that say the same

    def holds_for(self, recipient: ArticleRecipient | RecipientGroup) -> bool:
        if self.name == OCD_ID:
            return self.value in recipient.divisions
        attribute = recipient.attributes.get(self.name)
        if attribute is not None and _small(contact_fields.as_text(attribute)) == self.value:
            return True
        for each in recipient.divisions:  # noqa: SIM110 - asked of everyone, and `any` costs twice as much
            if each.endswith(self.endings):
                return True
        return False

    def may_hold(self) -> ColumnElement[bool]:
        """What the database can rule out by the text alone; it never rules out anyone for whom it holds."""
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
    """Who is asked for: everyone on a list, and of them those for whom all conditions hold."""

    list_key: str
    conditions: tuple[AudienceCondition, ...] = ()

    def holds_for(self, recipient: ArticleRecipient | RecipientGroup) -> bool:
        return all(condition.holds_for(recipient) for condition in self.conditions)


def divisions_of(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    given = attributes.get(OCD_IDS)
    if isinstance(given, list):
        return tuple([each for each in given if isinstance(each, str)])
    return tuple(_BETWEEN.split(given.strip())) if isinstance(given, str) else _NO_DIVISIONS


async def resolve_audience(
    tx: Transaction, tenant_id: int, article_key: str, given: Mapping[str, str]
) -> ArticleAudience:
    """An article whose key is that of a list is that list's; another list may be named. Otherwise it is `general`."""
    for name, value in sorted(given.items()):
        field = f"audience_filter.{name}"
        if not 1 <= len(value.strip()) <= MAX_VALUE_LENGTH or not value.isprintable():
            raise InvalidInput(f"has 1 to {MAX_VALUE_LENGTH} printable characters", field=field)
        if name == OCD_ID:
            divisions.parse(value, field=field)
        elif name != LIST and not _is_name(name):
            raise InvalidInput("is neither an attribute nor a kind of division, as state or county", field=field)
    known = await lists.existing_keys(tx, tenant_id, [article_key, given.get(LIST, GENERAL)])
    if LIST in given and given[LIST] not in known:
        raise InvalidInput(f"there is no list {given[LIST]}", field=f"audience_filter.{LIST}")
    list_key = given.get(LIST) or (article_key if article_key in known else GENERAL)
    return ArticleAudience(list_key, conditions_of(given))


async def page(
    tx: Transaction, tenant_id: int, asked: ArticleAudience, now: Instant, *, after: str, limit: int
) -> list[ArticleRecipient]:
    """The next of those who may be written to. Not all of them need answer: ask `holds_for`."""
    columns = (contacts.c.id, contacts.c.email, contacts.c.name, contacts.c.attributes)
    wanted = _wanted(tenant_id, asked, now, after)
    rows: Any = await tx.execute(select(*columns).where(wanted).order_by(contacts.c.email).limit(limit))
    return [_reader(key, email, name, orjson.loads(attributes)) for key, email, name, attributes in rows]


async def recipient_groups(
    tx: Transaction, tenant_id: int, asked: ArticleAudience, now: Instant, *, after: str, limit: int
) -> tuple[list[RecipientGroup], str]:
    """The same of the next so many, told by the database as far as they are alike: where many live in few places, few
    lines tell of them all. The last address of them is where to go on; it is empty where nobody was left."""
    names = sorted({OCD_IDS, *(each.name for each in asked.conditions if each.name != OCD_ID)})
    wanted = _wanted(tenant_id, asked, now, after)
    some = (
        select(contacts.c.email, contacts.c.attributes).where(wanted).order_by(contacts.c.email).limit(limit).subquery()
    )
    told = [json_value(some.c.attributes, name).label(f"value_{place}") for place, name in enumerate(names)]
    values = select(some.c.email, *told).subquery()
    own = [values.c[each.name] for each in told]
    # Which address is the last, only the database knows: it has an order of its own.
    last = func.max(func.max(values.c.email)).over()
    rows: Any = await tx.execute(select(func.count(), last, *own).group_by(*own))
    found = []
    for number, _, *texts in rows:
        attributes = {name: orjson.loads(text) for name, text in zip(names, texts, strict=True) if text is not None}
        found.append(RecipientGroup(attributes, divisions_of(attributes), number))
    return found, rows[0][1] if rows else ""


def _wanted(tenant_id: int, asked: ArticleAudience, now: Instant, after: str) -> ColumnElement[bool]:
    return and_(
        audience(tenant_id, () if asked.list_key == GENERAL else (asked.list_key,), None, now),
        contacts.c.email > after,
        *(condition.may_hold() for condition in asked.conditions),
    )


def _reader(contact_key: int, email: str, name: str | None, attributes: dict[str, Any]) -> ArticleRecipient:
    return ArticleRecipient(contact_key, email, name, attributes, divisions_of(attributes))


def conditions_of(given: Mapping[str, str]) -> tuple[AudienceCondition, ...]:
    """`{"state": "OH"}` is an attribute, or an id that ends in `/state:oh`; Washington is a district."""
    found = []
    for name, value in sorted(given.items()):
        if name != LIST:
            small = _small(value.strip())
            kinds = divisions.STATES if name == "state" else (name,)
            endings = tuple(f"/{kind}:{'_'.join(small.split())}" for kind in kinds)
            found.append(AudienceCondition(name, small, endings))
    return tuple(found)


def _is_name(name: str) -> bool:
    try:
        contact_fields.check_attribute_name(name)
    except contact_fields.InvalidContact:
        return False
    return True


def _small(text: str) -> str:
    """As the database folds letters: A to Z only."""
    return text.translate(_FOLDED)


_FOLDED: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
