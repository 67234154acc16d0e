"""The answers to the newsletter in an imported file, in sentences."""

from collections.abc import Mapping
from typing import Final

from mailwright.audience.importing.subscription_answers import SubscriptionAnswer
from mailwright.domain.translation import gettext, lazy_gettext, number_text

ANSWER_LABELS: Final = {
    SubscriptionAnswer.YES: lazy_gettext("Subscribed"),
    SubscriptionAnswer.NO: lazy_gettext("Not subscribed"),
    SubscriptionAnswer.EMPTY: lazy_gettext("Not subscribed: no answer"),
    SubscriptionAnswer.UNREADABLE: lazy_gettext("Not subscribed: ask them"),
}


def answers_text(answers: Mapping[SubscriptionAnswer, int]) -> str:
    """Return `3 yes, 2 no, 1 empty, 0 neither yes nor no`."""
    return gettext(
        "Newsletter: {yes} said yes, {no} said no, {empty} gave no answer, {unreadable} wrote neither yes nor no",
        **{each.value: number_text(answers.get(each, 0)) for each in SubscriptionAnswer},
    )
