"""The answers to the newsletter in an imported file, in sentences."""

from collections.abc import Iterator, Mapping
from typing import Final

from mailwright.audience.importing.imports import Import
from mailwright.audience.importing.plan import ImportPreview
from mailwright.audience.importing.subscription_answers import SubscriptionAnswer
from mailwright.domain.translation import gettext, lazy_gettext, number_text

ANSWER_LABELS: Final = {
    SubscriptionAnswer.YES: lazy_gettext("Subscribed"),
    SubscriptionAnswer.NO: lazy_gettext("Not subscribed"),
    SubscriptionAnswer.EMPTY: lazy_gettext("Not subscribed: no answer"),
    SubscriptionAnswer.UNREADABLE: lazy_gettext("Not subscribed: ask them"),
}


BLOCKED_LABEL: Final = lazy_gettext("Not subscribed: unsubscribed or suppressed before")


def preview_figures(seen: ImportPreview) -> Iterator[tuple[str, int, str]]:
    """Return what an import would do with the contacts who answered: label, number and tone."""
    for answer, label in ANSWER_LABELS.items():
        number = seen.answers.get(answer, 0)
        match answer:
            case SubscriptionAnswer.YES:
                yield label, len(seen.wants) - len(seen.blocked), "good"
                yield BLOCKED_LABEL, len(seen.blocked), ""
            case SubscriptionAnswer.UNREADABLE:
                yield label, number, "bad" if number else ""
            case _:
                yield label, number, ""


def answers_text(answers: Mapping[SubscriptionAnswer, int]) -> str:
    """Return `3 yes, 2 no, 1 empty, 0 neither yes nor no`."""
    return gettext(
        "Newsletter: {yes} said yes, {no} said no, {empty} gave no answer, {unreadable} wrote neither yes nor no",
        **{each.value: number_text(answers.get(each, 0)) for each in SubscriptionAnswer},
    )


def import_figures(done: Import) -> Iterator[tuple[str, int]]:
    """Return what an import did with subscriptions and which answers it read, as labels and numbers.

    There are none for a file that asks nothing and is imported without a list.
    """
    if done.plan.list_key is not None:
        yield gettext("Subscribed"), done.subscribed
    if done.plan.asks:
        yield gettext("Asked by email"), done.asked
    if done.plan.asks_subscription:
        yield gettext("Said no"), done.said_no
        yield gettext("No answer"), done.unanswered
        if done.unreadable:
            yield gettext("Neither yes nor no"), done.unreadable


def import_answers_text(done: Import) -> str:
    """Return `Subscribed: 3. Said no: 2.`, or an empty string."""
    return " ".join(f"{label}: {number_text(number)}." for label, number in import_figures(done))
