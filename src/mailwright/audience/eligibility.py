"""Decide who may receive bulk email. Every bulk source uses this one rule.

A contact needs an active subscription, or another recorded legal basis. A campaign to named lists reaches only the
subscribers of these lists. A campaign without lists reaches everyone with a subscription or a legal basis. A segment or
a filter only narrows an audience.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from sqlalchemy import ColumnElement, FromClause, and_, case, literal, or_, select, true

from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import unindexed
from mailwright.storage.tables import contacts, lists, subscriptions, suppressions

# A suppression with one of these scopes applies to every campaign, on any list.
EVERY_CAMPAIGN: Final = ("*", GENERAL)


class Exclusion(StrEnum):
    """Why a contact receives no bulk email. If several reasons apply, the first one in this order is reported."""

    BOUNCED = "bounced"
    UNSUBSCRIBED = "unsubscribed"
    SUPPRESSED = "suppressed"
    UNCONFIRMED = "unconfirmed"
    NOT_SUBSCRIBED = "not_subscribed"


# The contact did not decide against the email: only the consent is missing.
MISSING_CONSENT: Final = (Exclusion.UNCONFIRMED.value, Exclusion.NOT_SUBSCRIBED.value)


def is_subscribed_to(list_key: str) -> ColumnElement[bool]:
    """Match contacts who are subscribed to the list and, if it requires that, have confirmed.

    `general` stands for all bulk email: it matches any subscription, or a legal basis. A legal basis does not count for
    a contact who has unsubscribed from a list.
    """
    if list_key != GENERAL:
        return _has_subscription(subscriptions.c.list_key == list_key, is_current(subscriptions))
    return or_(*bases_of_bulk_email(()))


def bases_of_bulk_email(lists: Sequence[str]) -> list[ColumnElement[bool]]:
    """Return the bases on which contacts receive all bulk email: each of the lists, any other list, and a legal basis.

    An unsubscribe from any list ends the legal basis.
    """
    s = subscriptions.c
    is_allowed = and_(is_current(subscriptions), ~_is_suppressed(s.list_key))
    of_lists = [_has_subscription(s.list_key == list_key, is_allowed) for list_key in lists]
    of_others = _has_subscription(s.list_key.not_in(lists), is_allowed) if lists else _has_subscription(is_allowed)
    has_unsubscribed = _has_subscription(s.unsubscribed_at.is_not(None))
    return [*of_lists, of_others, and_(contacts.c.legal_basis.is_not(None), ~has_unsubscribed)]


def is_active_subscription(joined: FromClause, list_key: str) -> ColumnElement[bool]:
    """Match a current, confirmed subscription to the list, for a row of `contacts`."""
    return and_(joined.c.contact_key == contacts.c.id, joined.c.list_key == list_key, is_current(joined))


def is_current(joined: FromClause) -> ColumnElement[bool]:
    return and_(joined.c.unsubscribed_at.is_(None), joined.c.is_pending.is_(False))


def may_receive(tenant_id: int, lists: Sequence[str]) -> ColumnElement[bool]:
    """Match the contacts who may receive a campaign to any of these lists. An empty sequence stands for `general`."""
    wanted = sorted(set(lists)) or [GENERAL]
    if len(wanted) == 1:
        return and_(can_receive(tenant_id, wanted), is_subscribed_to(wanted[0]))
    reached = (and_(is_subscribed_to(list_key), ~_is_suppressed(literal(list_key))) for list_key in wanted)
    return and_(can_receive(tenant_id), or_(*reached))


def can_receive(tenant_id: int, lists: Sequence[str] = ()) -> ColumnElement[bool]:
    """Match all conditions except the subscription.

    The contact is known and active, and not suppressed for bulk email or for one of the lists.
    """
    scopes = sorted({*EVERY_CAMPAIGN, *lists})
    # Check all scopes in one lookup.
    return and_(is_known(tenant_id), contacts.c.status == "active", ~_is_suppressed(*map(literal, scopes)))


def is_excluded(
    tenant_id: int, lists: Sequence[str], matches_filter: ColumnElement[bool] | None, *, is_narrowed: bool = True
) -> ColumnElement[bool]:
    """Match the contacts who belong to the audience but may not receive the campaign.

    With a filter, all contacts who match it belong to the audience. Without one, or with one that only leaves contacts
    out (not `is_narrowed`), everyone who is or was on a list does.
    """
    of_lists = None if is_narrowed and matches_filter is not None else _is_of(lists)
    belongs = true() if of_lists is None else _has_subscription(of_lists)
    matches = true() if matches_filter is None else matches_filter
    return and_(is_known(tenant_id), matches, belongs, ~may_receive(tenant_id, lists))


def is_outside(tenant_id: int, lists: Sequence[str]) -> ColumnElement[bool]:
    """Match contacts who are not and never were on the lists, or on any list if `general` is one of them."""
    of_lists = _is_of(lists)
    return and_(is_known(tenant_id), ~_has_subscription(true() if of_lists is None else of_lists))


def exclusion(lists: Sequence[str]) -> ColumnElement[str]:
    """Return the reason why an excluded row of `contacts` receives nothing."""
    found = _is_of(lists)
    of_lists = true() if found is None else found
    is_pending = and_(subscriptions.c.is_pending.is_(True), subscriptions.c.unsubscribed_at.is_(None))
    return case(
        (contacts.c.status == "bounced", Exclusion.BOUNCED.value),
        (contacts.c.status == "unsubscribed", Exclusion.UNSUBSCRIBED.value),
        (_is_suppressed(*map(literal, EVERY_CAMPAIGN)), Exclusion.SUPPRESSED.value),
        (_has_subscription(of_lists, subscriptions.c.unsubscribed_at.is_not(None)), Exclusion.UNSUBSCRIBED.value),
        (_has_subscription(of_lists, is_pending), Exclusion.UNCONFIRMED.value),
        # The only remaining reason: the contact is subscribed, but suppressed for the list.
        (_has_subscription(of_lists), Exclusion.SUPPRESSED.value),
        else_=Exclusion.NOT_SUBSCRIBED.value,
    )


def lacks_consent(lists: Sequence[str]) -> ColumnElement[bool]:
    """Match excluded rows of `contacts` who would receive bulk email if they subscribed or confirmed."""
    return exclusion(lists).in_(MISSING_CONSENT)


# The list requires double opt-in, so only the contact can subscribe.
CONFIRMATION_REQUIRED: Final = "confirmation_required"


def opt_out(list_key: str) -> ColumnElement[str | None]:
    """Return why only the contact may subscribe a row of `contacts` to the list; NULL if others may too.

    Automatic steps use it: they never undo an unsubscribe or a suppression, and never confirm for somebody.
    """
    double_opt_in = select(lists.c.id).where(
        lists.c.tenant_id == contacts.c.tenant_id, lists.c.list_key == list_key, lists.c.requires_confirmation.is_(True)
    )
    own = subscriptions.c.list_key == list_key
    scopes = [literal(scope) for scope in sorted({*EVERY_CAMPAIGN, list_key})]
    has_unsubscribed = or_(
        contacts.c.status == "unsubscribed",
        _has_subscription(own, subscriptions.c.unsubscribed_at.is_not(None)),
        _is_suppressed(*scopes, reason="unsubscribed"),
    )
    return case(
        (contacts.c.status == "bounced", Exclusion.BOUNCED.value),
        (has_unsubscribed, Exclusion.UNSUBSCRIBED.value),
        (_is_suppressed(*scopes), Exclusion.SUPPRESSED.value),
        (_has_subscription(own, subscriptions.c.is_pending.is_(True)), Exclusion.UNCONFIRMED.value),
        (and_(double_opt_in.exists(), ~_has_subscription(own)), CONFIRMATION_REQUIRED),
    )


async def find_opt_out(tx: Transaction, tenant_id: int, email: str, list_key: str) -> Exclusion | None:
    """Return why only the contact may subscribe to the list, except that it requires a confirmation."""
    found = select(opt_out(list_key).label("reason")).where(is_known(tenant_id), contacts.c.email == email)
    reasons = {row.reason for row in await tx.execute(found)} - {None, CONFIRMATION_REQUIRED}
    return Exclusion(reasons.pop()) if reasons else None


def _is_of(lists: Sequence[str]) -> ColumnElement[bool] | None:
    """Match subscriptions to one of the lists. Return None if any subscription counts."""
    return subscriptions.c.list_key.in_(sorted(set(lists))) if lists and GENERAL not in lists else None


def is_known(tenant_id: int) -> ColumnElement[bool]:
    """Match the tenant's contacts that are not deleted."""
    return and_(contacts.c.tenant_id == tenant_id, contacts.c.deleted_at.is_(None))


def _has_subscription(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(subscriptions.c.id).where(subscriptions.c.contact_key == contacts.c.id, *conditions).exists()


def _is_suppressed(*scopes: ColumnElement[str], reason: str | None = None) -> ColumnElement[bool]:
    """Return whether the contact is suppressed for one of the scopes, for any or a certain reason."""
    return (
        select(suppressions.c.id)
        .where(
            suppressions.c.tenant_id == contacts.c.tenant_id,
            suppressions.c.email == contacts.c.email,
            # Nearly every contact has no suppression at all, so one lookup is enough.
            unindexed(suppressions.c.list_key).in_(scopes),
            true() if reason is None else suppressions.c.reason == reason,
        )
        .correlate(contacts, subscriptions)
        .exists()
    )
