"""Read the answers of a yes/no column such as `Newsletter?`: only a yes subscribes a contact."""

import unicodedata
from enum import StrEnum
from typing import Final


class SubscriptionAnswer(StrEnum):
    """What a row says about the newsletter. Only `YES` subscribes; the others are in the order of their weight."""

    NO = "no"
    UNREADABLE = "unreadable"
    YES = "yes"
    EMPTY = "empty"

    def merge(self, other: "SubscriptionAnswer | None") -> "SubscriptionAnswer":
        """Return the answer of a contact with several rows: a no on any of them counts."""
        order = list(SubscriptionAnswer)
        return self if other is None else min(self, other, key=order.index)


_YES: Final = frozenset([
    "yes", "y", "true", "t", "1", "1.0", "on", "x", "х", "✓", "✔", "✅", "☑", "checked", "ok", "subscribed",
    "subscriber", "active", "opted-in", "opt-in", "accepted", "agreed", "granted", "да", "д", "подписан",
    "подписана", "согласен", "согласна", "истина", "так", "sim", "s", "verdadeiro", "inscrito", "aceito", "si",
    "sí", "sì", "ja", "j", "oui", "vrai", "tak", "ano", "evet", "da", "kyllä", "igen", "はい", "是", "예",
])  # fmt: skip
_NO: Final = frozenset([
    "no", "n", "false", "f", "0", "0.0", "off", "✗", "✘", "❌", "☐", "unchecked", "unsubscribed", "opted-out",
    "opt-out", "declined", "refused", "withdrawn", "never", "нет", "н", "отписан", "отписана", "ложь", "ні",
    "não", "nao", "falso", "recusado", "nein", "non", "faux", "nie", "ne", "nei", "nej", "nee", "hayır",
    "hayir", "ei", "nem", "いいえ", "否", "아니요", "nope", "nah", "unsubscribe", "disagree", "disagreed", "don't",
    "do not", "не",
])  # fmt: skip
# Words beside an answer that do not change it: "No, thanks", "Yes please".
_POLITE: Final = frozenset([
    "thanks", "thank", "you", "please", "sorry", "danke", "bitte", "obrigado", "obrigada", "gracias", "merci", "grazie",
    "спасибо", "пожалуйста",
])  # fmt: skip


def read_answer(text: str, *, is_opt_out: bool = False) -> SubscriptionAnswer | None:
    """Return the answer in a cell. With `is_opt_out`, a yes means no; None stands for no objection."""
    plain = unicodedata.normalize("NFC", " ".join(text.split()).casefold()).rstrip(".!")
    if not plain:
        return None if is_opt_out else SubscriptionAnswer.EMPTY
    plain = plain.replace("opted in", "opted-in").replace("opted out", "opted-out").replace("opt in", "opt-in")
    words = plain.replace(",", " ").replace("’", "'").split()
    plain = " ".join(word for word in words if word not in _POLITE)
    is_yes, is_no = plain in _YES, plain in _NO
    if not is_yes and not is_no:
        return SubscriptionAnswer.UNREADABLE
    if is_opt_out:
        return SubscriptionAnswer.NO if is_yes else None
    return SubscriptionAnswer.YES if is_yes else SubscriptionAnswer.NO
