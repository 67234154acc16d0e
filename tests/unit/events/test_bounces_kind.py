"""Hard or soft bounces, by enhanced status and then by text."""

import re
import re._constants as op  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.domain.bounce import BounceKind, classify_bounce, judge_bounce
from mailwright.domain.bounce_phrases import ABOUT_SENDER, CLOSED, PASSING, SUGGESTIVE, UNKNOWN_ADDRESS

HARD, SOFT = BounceKind.HARD, BounceKind.SOFT

pytestmark = pytest.mark.promise("bounce-hard-or-soft")


@pytest.mark.parametrize("status", ["5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1", "5.4.4", "5.4.310"])
def test_dead_address_is_hard(status: str) -> None:
    assert classify_bounce(status, 550, "") is HARD


@pytest.mark.parametrize(
    "status",
    [
        *("5.1.4", "5.1.7", "5.1.8", "5.1.9", "5.1.11", "5.2.2", "5.2.3", "5.2.4", "5.3.2", "5.3.4", "5.4.6", "5.4.7"),
        *(
            "5.6.0",
            "5.6.1",
            "5.7.0",
            "5.7.1",
            "5.7.26",
            "5.7.515",
            "4.2.1",
            "4.2.2",
            "4.3.0",
            "4.4.1",
            "4.4.7",
            "4.7.1",
        ),
    ],
)
def test_status_not_about_address_is_soft(status: str) -> None:
    assert classify_bounce(status, 550, "refused") is SOFT


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        ("5.7.1", "nonexistent user", HARD),
        ("5.7.1", "Recipient unknown", HARD),
        ("5.1.351", "Remote server returned unknown recipient or mailbox unavailable", HARD),
        ("5.3.0", "Unrouteable address", HARD),
        ("5.7.27", "The domain has a null MX", HARD),
        ("5.4.7", "No MX record found for domain", HARD),
        ("5.7.0", "User ann (ann@reader.example) not listed in Domino Directory", HARD),
        ("4.7.1", "user unknown", HARD),
        ("4.4.4", "host or domain name not found", SOFT),  # the name servers may return
        ("5.1.1", "5.7.1 Service unavailable; client host blacklisted, see spamhaus.org", SOFT),
        ("5.1.1", "rate limit exceeded", SOFT),
        ("5.1.2", "IP has been blocked", SOFT),
        ("5.2.1", "too many messages", SOFT),
        ("5.1.1", "user unknown, see https://spam.example/why", HARD),  # the code decides between contradicting words
        ("5.0.0", "user unknown, or blocked by our spam filter", SOFT),
        ("5.1.1", "unauthorized sender", SOFT),
        ("5.1.1", "<ann@reader.example>: Recipient address rejected: sender not authorised", SOFT),
        ("5.1.1", "Sender address rejected: User unknown in virtual mailbox table", SOFT),
        ("5.1.1", "You are not allowed to send to this recipient", SOFT),
        ("5.1.1", "This mailbox only accepts email from internal senders", SOFT),
        ("5.1.1", "Your domain has been blocked", SOFT),
        ("5.1.1", "Unknown sender", SOFT),
        ("5.0.0", "500 err.nosuchuser", HARD),
        ("5.0.0", "USER_NOT_FOUND", HARD),
        ("5.0.0", "RecipientUnknown", HARD),
        ("5.0.0", "Unable to find MX of domain reader.example", HARD),
        ("5.0.0", "MX record not found", HARD),
        ("5.0.0", "ERR_NO_SUCH_MAILBOX", HARD),
        ("5.0.0", "SMTP_USER_UNKNOWN", HARD),
        ("5.0.0", "AddressDoesNotExist", HARD),
        ("5.0.0", "mailbox-does-not-exist", HARD),
        ("5.0.0", "account_closed", HARD),
        ("5.0.0", "The user you are sending to is unknown", HARD),
        ("5.1.1", "SenderNotVerified", SOFT),
        ("5.1.1", "Unable to verify your recipient's mailbox: no such user", HARD),
        ("5.1.1", "Recipient address rejected: User unknown; could not verify your recipient", HARD),
        ("5.7.1", "policy UnknownUserRatio too high, blocked", SOFT),
        ("5.7.1", "message rejected by filter mailbox_disabled_check", SOFT),
        ("5.1.1", "SENDER_UNKNOWN", SOFT),
        ("5.1.1", "TooManyMessages", SOFT),
        ("5.1.1", "mailboxFull", SOFT),
    ],
)
def test_explicit_words_outrank_the_code(status: str, text: str, kind: BounceKind) -> None:
    assert classify_bounce(status, 550, text) is kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("User unknown", HARD),
        ("Unknown  user\n ann", HARD),
        ("No such user here", HARD),
        ("mailbox unavailable", HARD),
        ("The account you tried to reach does not exist", HARD),
        ("Sorry, no mailbox here by that name", HARD),
        ("recipient not found", HARD),
        ("Host or domain name not found", HARD),
        ("the domain returned Null MX", HARD),
        ("Почтовый ящик не существует", HARD),
        ("usuário inexistente", HARD),
        ("Host not found, try again", SOFT),
        ("user unknown; mailbox full", SOFT),
        ("unknown user, or blocked by our spam filter", SOFT),
        ("sender address does not exist", SOFT),
        ("domain does not exist: SPF failed", SOFT),
        ("Transaction failed", SOFT),
        ("", SOFT),
    ],
)
def test_text_decides_without_specific_status(text: str, kind: BounceKind) -> None:
    for status in (None, "5.0.0", "5.1.0", "5.2.0", "5.3.0", "5.4.1", "5.5.0", "5.5.1"):
        assert classify_bounce(status, 550, text) is kind, status


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize(
    "text",
    [
        "Unknown or illegal alias",
        "Invalid or unknown virtual user",
        "No mailbox found for this name",
        "ann@reader.example was not found",
        "Recipient ann could not be found",
        "That is not a valid account",
        "BAD_RECIPIENT, see our page",
        "Unrecognized recipient",
        "The addresses you entered could not be found",
        "It is not known at this site",
        "This person is no longer with the company",
        "Naslov ne obstaja",
        "This address no longer accepts email",
        "Sorry, your recipient is on my badrcptto list",
        "RESOLVER.ADR.ExRecipNotFound; not found",
        "We do not have a mailbox for ann; the account does not exist",
        "This domain has a null MX",
        "DNS answered NXDOMAIN",
        "Der Empfänger ann ist hier unbekannt",
        "Ce destinataire est inconnu",
        "L'utente ann risulta sconosciuto",
        "El usuario es desconocido",
        "O destinatário informado é inválido",
        "Taki adres nie istnieje",
        "Нет такого пользователя",
        "De gebruiker bestaat niet",
        "Användaren finns inte",
        "宛先が見つかりません",
        "用户不存在",
        "사용자를 찾을 수 없습니다",
    ],
)
def test_unknown_address_is_hard_with_any_code(text: str) -> None:
    for status in (None, "5.0.0", "5.7.1", "4.0.0"):
        assert classify_bounce(status, None, text) is HARD, status


@pytest.mark.parametrize(
    "text",
    [
        "The account was deactivated",
        "mailbox ann is currently disabled",
        "Inactive user",
        "unavailable mailbox",
        "the mailbox you wrote to has been closed",
        "Das Postfach wurde deaktiviert",
        "We could not resolve the host of this domain",
        "no mail server found",
        "name or service not known",
        "mailbox is unavailable",
    ],
)
def test_closed_mailbox_is_hard_unless_temporary(text: str) -> None:
    assert classify_bounce("5.0.0", 550, text) is HARD
    assert classify_bounce("5.7.1", 550, text) is HARD
    assert classify_bounce("4.2.1", 450, text) is SOFT
    assert classify_bounce(None, 450, text) is SOFT
    assert classify_bounce("5.2.1", 550, f"temporary problem: {text}") is SOFT


@pytest.mark.promise("bounce-hard-or-soft")
@pytest.mark.parametrize(
    "text",
    [
        "host mx.reader.example refused in reply to MAIL FROM: the name is bad",
        "Your server has no reverse DNS entry",
        "You are not authorized to send to this list",
        "This group may not exist, or you may not be a member",
        "Das Postfach ist voll",
        "La casella è piena",
        "A caixa postal está cheia",
        "Почтовый ящик переполнен",
        "user has exhausted the storage of the mailbox",
        "connection refused by the host",
        "domain not found: malformed name server reply",
        "message exceeds the maximum",
    ],
)
def test_passing_reason_is_soft_with_any_code(text: str) -> None:
    for status in ("5.1.1", "5.1.2", "5.2.1", None):
        assert classify_bounce(status, 550, text) is SOFT, status


def test_rejected_sender_domain_is_soft() -> None:
    assert classify_bounce("5.1.0", 553, "after MAIL FROM:<news@sender.example>: sender.example does not exist") is SOFT


def test_words_in_names_do_not_count() -> None:
    assert (
        classify_bounce("5.0.0", 550, "host spam.example[192.0.2.1] said: <nospam@full.example> user unknown") is HARD
    )
    assert classify_bounce("5.0.0", 550, "<no.such.user@reader.example>: refused") is SOFT


def test_unexplained_rejection_has_no_judgement() -> None:
    assert judge_bounce("5.0.0", 550, "Transaction failed") is None
    assert judge_bounce("5.1.1", 550, "Transaction failed") is HARD
    assert judge_bounce("5.0.0", 550, "user unknown") is HARD


def test_temporary_code_is_soft_except_unknown_user() -> None:
    assert classify_bounce(None, 450, "refused") is SOFT
    assert classify_bounce("4.0.0", 450, "refused") is SOFT
    assert classify_bounce("4.1.1", 450, "user unknown") is HARD
    assert classify_bounce("4.1.1", 450, "greylisted") is SOFT


def test_some_phrases_count_with_one_code_only() -> None:
    assert classify_bounce("5.2.1", 550, "The user is receiving mail at a rate that prevents more") is SOFT
    assert classify_bounce("5.1.1", 550, "mailbox is full") is SOFT
    assert classify_bounce("5.7.1", 550, "No such user!") is HARD
    assert classify_bounce("5.4.1", 550, "Recipient address rejected: Access denied") is HARD
    assert classify_bounce("5.7.1", 550, "Recipient address rejected: Access denied") is SOFT
    assert classify_bounce("5.1.0", 550, "Address rejected") is HARD
    assert classify_bounce("5.1.0", 550, "Sender address rejected") is SOFT
    assert classify_bounce("5.0.0", 550, "Address rejected") is SOFT


@given(st.none() | st.text(max_size=12), st.none() | st.integers(), st.text())
def test_any_input_has_a_kind(status: str | None, reply_code: int | None, text: str) -> None:
    assert classify_bounce(status, reply_code, text) in BounceKind


def test_long_text_is_read_up_to_limit() -> None:
    assert classify_bounce(None, 550, "x " * 5_000_000 + "user unknown") is SOFT


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("5.1.1", "550 5.1.1 sender verify failed: no such user news@acme.test"),
        ("5.0.0", "550-Verification failed for <news@acme.test> 550-No Such User Here 550 Sender verify failed"),
        ("5.1.1", "550 5.1.1 Callout verification of sender failed: user unknown"),
        ("5.1.0", "550 5.1.0 Address rejected: sender does not exist"),
        ("5.1.1", "550 5.1.1 sender address unknown: invalid address"),
        ("5.1.1", "550 5.1.1 Too many recipients / invalid recipients this hour"),
        ("5.1.1", "Sender callout verification failed: 550 5.1.1 User unknown"),
        ("5.1.1", "Sender address callback failed: user unknown"),
        ("5.1.1", "Could not verify sender <news@acme.test>: user unknown"),
        ("5.1.1", "Cannot verify your address: no such user"),
        ("5.1.1", "Sender not in company directory"),
        ("5.1.1", "From address not in company directory"),
        ("5.1.1", "Email from outside the organization is not accepted"),
        ("5.1.1", "MAIL FROM user unknown"),
        ("5.1.1", "reverse-path <news@acme.test> does not exist"),
        ("5.1.1", "author domain does not exist"),
        ("5.1.1", "your account has been disabled"),
    ],
)
def test_sender_problems_and_limits_are_soft_despite_their_codes(status: str, text: str) -> None:
    assert classify_bounce(status, 550, text) is BounceKind.SOFT


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("4.4.7", "delivery temporarily suspended: mailbox does not exist, user unknown"),
        ("5.5.0", "550 User bob@example.com has moved, new address is bob@new.example"),
        (None, "551 Recipient moved to new address bob@new.example"),
    ],
)
def test_explicit_words_about_the_address_outrank_codes(status: str | None, text: str) -> None:
    assert classify_bounce(status, 550, text) is BounceKind.HARD


# Texts are compared with single blanks, so a phrase must not need two.


def texts_of(tokens: Iterable[tuple[Any, Any]]) -> Iterator[str]:
    """Yield texts for a parsed pattern, with and without each optional part."""
    yield from map("".join, islice(product(*(list(islice(_texts_of_token(*each), 9)) for each in tokens)), 3_000))


def _texts_of_token(kind: Any, value: Any) -> Iterator[str]:
    if kind is op.LITERAL:
        yield chr(value)
    elif kind is op.BRANCH:
        for branch in value[1]:
            yield from islice(texts_of(branch), 9)
    elif kind is op.SUBPATTERN:
        yield from texts_of(value[-1])
    elif kind is op.MAX_REPEAT:
        least, most, repeated = value
        for count in sorted({least, min(most, max(1, least))}):
            yield from (text * count for text in islice(texts_of(repeated), 4))
    elif kind is op.IN:
        yield chr(value[0][1]) if value[0][0] is op.LITERAL else "x"
    else:
        yield "x" if kind in (op.ANY, op.NOT_LITERAL) else ""  # Assertions have no text of their own.


@pytest.mark.parametrize("phrase", [*UNKNOWN_ADDRESS, *CLOSED, *PASSING, *SUGGESTIVE, *ABOUT_SENDER])
def test_phrase_needs_no_two_blanks_in_a_row(phrase: str) -> None:
    matched = [text for text in texts_of(parser.parse(phrase)) if re.search(phrase, text)]
    assert all(re.search(phrase, re.sub(" +", " ", text)) for text in matched), matched


@pytest.mark.parametrize("text", ["maximum number of recipients exceeded", "Max  recipients\r\n exceeded"])
def test_too_many_recipients_is_soft(text: str) -> None:
    assert classify_bounce("5.1.1", 550, text) is SOFT


# Words about the sender, with the code of an unknown recipient. A live recipient must not be suppressed for them.
SENDER_TEXTS = (
    "Sender unknown",
    "Sender address does not exist",
    "sender domain not found",
    "Sender's domain does not exist in DNS",
    "The sender's mailbox does not exist here",
    "No such sender here",
    "Envelope sender does not exist",
    "Unknown sender address",
    "The sender could not be found",
    "Originator not authorized, user unknown to us",
    "From address does not exist",
    "MAIL FROM address unknown",
    "Return path does not exist",
    "Invalid return-path address",
    "Your address is not known here",
    "Your e-mail address does not exist",
    "Unauthorized sender",
    "Absender unbekannt",
    "Unbekannter Absender",
    "Die Absenderadresse existiert nicht",
    "Der Absender wurde nicht gefunden",
    "Adresse des Absenders ist ungültig",
    "Absender nicht erlaubt",
    "Absender abgelehnt: Adresse nicht bekannt",
    "Expéditeur inconnu",
    "L'adresse de l'expéditeur n'existe pas",
    "Expediteur refuse, adresse inconnue",
    "Adresse expéditeur invalide",
    "Émetteur non autorisé",
    "Remitente desconocido",
    "La dirección del remitente no existe",
    "El remitente no está autorizado, usuario no encontrado",
    "Remitente rechazado: dominio inexistente",
    "Remetente desconhecido",
    "O endereço do remetente não existe",
    "Remetente não autorizado",
    "Remetente inválido: conta inexistente",
    "Отправитель не найден",
    "Неизвестный отправитель",
    "Адрес отправителя не существует",
    "Отправитель отклонён: не существует",
    "Домен отправителя не найден",
    "Mittente sconosciuto",
    "L'indirizzo del mittente non esiste",
    "Mittente rifiutato: utente inesistente",
    "Nieznany nadawca",
    "Adres nadawcy nie istnieje",
    "Nadawca odrzucony, nie znaleziono",
    "Afzender onbekend",
    "Adres van de afzender bestaat niet",
    "Avsändaren finns inte",
    "Afsenderen findes ikke",
    "Avsenderen finnes ikke",
    "Lähettäjää ei ole olemassa",
    "Odesílatel neexistuje",
    "A feladó nem létezik",
    "Expeditorul nu există",
    "Gönderen adresi mevcut değil",
    "Ο αποστολέας δεν υπάρχει",
    "Адреса відправника не існує",
    "送信者のアドレスが存在しません",
    "差出人のドメインが見つかりません",
    "=?UTF-8?B?6YCB5L+h5YWD44Ki44OJ44Os44K544GM5a2Y5Zyo44GX44G+44Gb44KT?=",
    "=?ISO-2022-JP?B?GyRCOjk9UD9NJSIlSSVsJTkkLEI4Ol8kNyReJDskcxsoQg==?=",
    "发件人地址不存在",
    "不存在的发件人",
    "寄件者不存在",
    "발신자를 찾을 수 없습니다",
    "Địa chỉ người gửi không tồn tại",
    "Alamat pengirim tidak ditemukan",
)


@pytest.mark.parametrize("text", SENDER_TEXTS)
@pytest.mark.parametrize("status", ["5.1.1", "5.1.0", None])
def test_words_about_the_sender_are_soft_in_every_language(status: str | None, text: str) -> None:
    assert classify_bounce(status, 550, f"550 {status or ''} <shop@example.com>: {text}") is SOFT


# Words about the recipient that mention the sender, or that an address that is not the sender's does not exist.
RECIPIENT_TEXTS = (
    "User unknown, message returned to sender",
    "Returned to sender: no such user here",
    "The sender should check the address: recipient not found",
    "Sender: shop@example.com. Recipient: user unknown",
    "sender OK, but no such user",
    "Mailbox does not exist. The message goes back to its sender",
    "Empfänger unbekannt, Nachricht zurück an den Absender",
    "Zurück an Absender: Benutzer existiert nicht",
    "Die Adresse des Empfängers existiert nicht. Absender: shop@example.com",
    "Nachricht geht zurück an den Absender, weil der Empfänger unbekannt ist",
    "Destinataire inconnu, retour à l'expéditeur",
    "Retour à l'expéditeur: l'adresse n'existe pas",
    "Le destinataire n'existe pas",
    "Destinatario desconocido, devuelto al remitente",
    "Devuelto al remitente: el usuario no existe",
    "La cuenta del destinatario no existe",
    "Destinatário desconhecido, devolvido ao remetente",
    "Devolvido ao remetente: usuário não encontrado",
    "Получатель не существует, письмо возвращено отправителю",
    "Письмо возвращено отправителю: пользователь не найден",
    "Destinatario sconosciuto, restituito al mittente",
    "Restituito al mittente: utente inesistente",
    "Odbiorca nie istnieje, zwrot do nadawcy",
    "Zwrot do nadawcy: nieznany użytkownik",
    "Terug naar afzender: gebruiker onbekend",
    "Mottagaren finns inte",
    "宛先のアドレスが存在しません",
    "宛先不明のため送信者に返送します",
    "=?UTF-8?B?5a6b5YWI44Gu44Ki44OJ44Os44K544GM5a2Y5Zyo44GX44G+44Gb44KT?=",
    "收件人不存在,退回发件人",
    "받는 사람을 찾을 수 없습니다",
    "User unknown in virtual alias table",
    "Recipient address rejected: User unknown",
)


@pytest.mark.parametrize("text", RECIPIENT_TEXTS)
@pytest.mark.parametrize("status", ["5.1.1", None])
def test_unknown_recipient_stays_hard_beside_the_sender(status: str | None, text: str) -> None:
    assert classify_bounce(status, 550, text) is HARD


# Words about the content, a limit, a policy or permissions, with the code of an unknown recipient: the recipient may be
# alive, whatever the server's code says.
LIVE_RECIPIENT_TEXTS = (
    "The user has blocked messages from you",
    "Recipient has blocked your address",
    "recipient rejected your message due to content",
    "Message contains a forbidden attachment",
    "Message rejected due to local policy",
    "Rejected by content filter",
    "Rejected by the recipient's whitelist",
    "The recipient only allows contacts to write",
    "Posting to this group is restricted to members",
    "You must be a subscriber to post",
    "Please authenticate first",
    "Relaying denied",
    "Client host rejected: cannot find your hostname",
    "Return address unknown",
    "Sending user unknown",
    "Sending domain is not verified",
    "Content Filter agent quarantined this message",
    "Access denied, see https://help.example/unknown",
    "Dieses Postfach nimmt nur Nachrichten von internen Absendern an",
    "Sie sind nicht berechtigt, an diesen Verteiler zu senden",
    "Das Postfach hat sein Kontingent überschritten",
    "Nachricht wegen ihres Inhalts abgelehnt",
    "Anhang nicht erlaubt",
    "Quota dépassé pour ce destinataire",
    "Message refusé: pièce jointe interdite",
    "Cuota excedida",
    "Mensaje rechazado por contenido",
    "Mensagem rejeitada por política",
    "Cota de armazenamento excedida",
    "Você não tem permissão para enviar a este destinatário",
    "Превышена квота почтового ящика",
    "Сообщение отклонено: спам",
    "Письмо отклонено политикой безопасности",
    "Вам запрещено писать этому получателю",
    "Отправитель не имеет прав на отправку этому получателю",
    "Messaggio rifiutato per il contenuto",
    "送信者が許可されていません",
    "受信拒否設定されています",
    "迷惑メールとして拒否されました",
    "メールボックスの容量を超えています",
    "对方拒收您的邮件",
    "邮件内容被拒绝",
)


@pytest.mark.parametrize("text", LIVE_RECIPIENT_TEXTS)
@pytest.mark.parametrize("status", ["5.1.1", "5.2.1", None])
def test_words_about_content_limits_and_policy_are_soft(status: str | None, text: str) -> None:
    assert classify_bounce(status, 550, f"550 {status or ''} <ann@reader.example>: {text}") is SOFT


# The texts of large mailbox providers and common servers about an address that does not exist.
DEAD_RECIPIENT_TEXTS = (
    ("5.1.10", "RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup"),
    ("5.4.1", "Recipient address rejected: Access denied. AS(201806281) [frontend.eop.example]"),
    ("5.1.1", "The email account that you tried to reach does not exist. https://support.example/?p=NoSuchUser&spam=1"),
    (None, "delivery error: dd This user doesn't have a yahoo.example account (ann@yahoo.example) [0]"),
    (
        None,
        "Message was not accepted -- invalid mailbox. Local mailbox ann@mail.example is unavailable: user not found",
    ),
    (None, "Requested action not taken: mailbox unavailable For explanation visit https://host.example/error?c=quota"),
    ("5.7.1", "Invalid Recipient - https://community.example/docs/policy"),
    (None, "Адресат неизвестен"),
    (None, "ann@aliyun.example: Account not exist"),
    ("5.1.1", "Empfängeradresse abgelehnt: Benutzer unbekannt in virtueller Mailbox-Tabelle"),
)


@pytest.mark.parametrize(("status", "text"), DEAD_RECIPIENT_TEXTS)
def test_words_of_mailbox_providers_about_an_unknown_address_are_hard(status: str | None, text: str) -> None:
    assert classify_bounce(status, 550, text) is HARD


def test_identifiers_in_addresses_do_not_count() -> None:
    assert classify_bounce("5.7.1", 550, "5.7.1 rejected <NoSuchUser@acme.test>") is BounceKind.SOFT
