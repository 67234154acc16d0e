"""What the mail that asks for a confirmation says, in every language that the pages speak."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mailwright.domain import locales


@dataclass(frozen=True, slots=True)
class ConfirmationText:
    """`{list}` is the name of the list."""

    subject: str
    asks: str
    button: str
    otherwise: str


TEXTS: Final[Mapping[str, ConfirmationText]] = {
    locales.DEFAULT_LOCALE: ConfirmationText(
        subject="Please confirm: {list}",
        asks="Somebody, most likely you, asked us to send you {list}. Please confirm that you want it.",
        button="Yes, send it to me",
        otherwise="If it was not you, do nothing: you will get no further mail about this.",
    ),
    "ru": ConfirmationText(
        subject="Подтвердите подписку: {list}",
        asks="Кто-то, скорее всего вы, попросил присылать вам «{list}». Подтвердите, пожалуйста, что вы этого хотите.",
        button="Да, присылайте",
        otherwise="Если это были не вы, ничего не делайте: больше писем об этом не будет.",
    ),
    "pt": ConfirmationText(
        subject="Confirme a inscrição: {list}",
        asks="Alguém, provavelmente você, pediu para receber {list}. Confirme, por favor, que é isso que deseja.",
        button="Sim, quero receber",
        otherwise="Se não foi você, não faça nada: não enviaremos mais mensagens sobre isto.",
    ),
}


def text_for(locale: str | None) -> ConfirmationText:
    return locales.best(TEXTS, locale)
