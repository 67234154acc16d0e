"""Which visits of an unsubscribe link show a button, because a link scanner opens links and presses no buttons."""

from enum import StrEnum


class UnsubscribeConfirmation(StrEnum):
    """Who gets the button instead of being unsubscribed at once. HEAD requests and prefetches always get it."""

    EVERYONE = "everyone"
    UNCONFIRMED_PEOPLE = "unconfirmed people"  # everyone but a person who navigates in a browser
    MACHINES = "machines"  # only visitors that are recognised as machines
    NOBODY = "nobody"
