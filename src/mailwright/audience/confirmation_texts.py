"""Texts of the confirmation email, in the languages of the public pages."""

from collections.abc import Mapping
from typing import Final

from mailwright.domain import locales
from mailwright.domain.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ConfirmationText:
    """`{list}` is the name of the list, and `{wording}` the wording of the consent to tracking."""

    subject: str
    request: str
    consent: str
    button: str
    ignore: str


TEXTS: Final[Mapping[str, ConfirmationText]] = {
    locales.DEFAULT_LOCALE: ConfirmationText(
        subject="Confirm your subscription: {list}",
        request="You, or someone using your address, signed up for {list}. Please confirm your subscription.",
        consent="By confirming, you also agree to this: {wording}",
        button="Confirm subscription",
        ignore="If this was not you, ignore this email. You will not receive any more emails about it.",
    ),
    "ru": ConfirmationText(
        subject="Подтвердите подписку: {list}",
        request="Вы или кто-то с вашим адресом подписались на «{list}». Пожалуйста, подтвердите подписку.",
        consent="Подтверждая подписку, вы соглашаетесь и с этим: {wording}",
        button="Подтвердить подписку",
        ignore="Если это были не вы, просто проигнорируйте это письмо: больше писем об этом не будет.",
    ),
    "pt": ConfirmationText(
        subject="Confirme sua inscrição: {list}",
        request="Você, ou alguém com o seu endereço, se inscreveu em {list}. Confirme sua inscrição.",
        consent="Ao confirmar, você também concorda com o seguinte: {wording}",
        button="Confirmar inscrição",
        ignore="Se não foi você, ignore este e-mail. Não enviaremos mais mensagens sobre isso.",
    ),
}


def text_for(locale: str | None) -> ConfirmationText:
    return locales.best(TEXTS, locale)
