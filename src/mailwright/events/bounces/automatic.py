"""Recognize emails that programs wrote, by the headers of RFC 3834 and of vendors. Such emails must not be answered."""

import re

from mailwright.domain.encoded_words import decode_words
from mailwright.events.bounces.email_parts import EmailHeaders

# Headers older than RFC 3834 that only personal auto-responders use. Auto-Submitted is not enough, because servers also
# set it on bounces.
_RESPONDER_FIELDS = ("x-autoreply", "x-autorespond", "x-autoresponder", "x-vacation")
# Subjects of auto-responders without headers: a whole phrase and a colon, before the subject that is answered. People
# begin a subject with the same words ("Auto reply settings", "Vacation"), so words without the colon do not count.
_RESPONSE = (
    r"auto(?:matic|mated|)[ -]?(?:reply|response|answer)|automatische antwort|automatisch antwoord"
    r"|abwesenheits(?:notiz|nachricht|meldung)|автоответ|автоматический ответ|resposta autom[aá]tica"
    r"|réponse automatique|respuesta autom[aá]tica|risposta automatica|automatyczna odpowiedź|odpowiedź automatyczna"
    r"|automatiskt? svar|autosvar|otomatik yan[ıi]t|自動(?:応答|返信)|自动(?:回复|答复)|자동 ?(?:회신|응답)"
    r"|automaattinen vastaus|automatická odpověď|răspuns automat|αυτόματη απάντηση|automatikus válasz"
    r"|автоматична відповідь|trả lời tự động|رد تلقائي"
    r"|out of (?:the )?office (?:auto-?)?(?:reply|response|message|notice|notification)"
    r"|vacation (?:auto-?)?(?:reply|response|message|notice|notification)"
)
# People also write these, with their own words after the colon: "Out of office: please hold my delivery".
_ABSENCE = (
    r"out of (?:the )?office|abwesend|abwesenheit|вне офиса|fora do escrit[oó]rio|absence du bureau"
    r"|fuera de (?:la )?oficina|fuori (?:sede|ufficio)"
)
_RESPONDER_SUBJECT = re.compile(rf"\s*(?:{_RESPONSE}|{_ABSENCE})\s*[:：]", re.IGNORECASE)
_AUTOMATIC_SUBJECT = re.compile(
    rf"\s*(?:(?:{_RESPONSE})\s*[:：]|(?:{_ABSENCE})\s*[:：]\s*(?:(?:re|aw|res|r|sv)\s?:|$))", re.IGNORECASE
)
# Headers that only auto-responders and read receipts have. Others, such as Feedback-ID and List-Id, are also in email
# of people: their email service or a mailing list adds these.
_PROGRAM_FIELDS = ("x-autoreply-from", "x-mail-autoreply", "x-fc-machinegenerated")
# Values of these headers by which a program says that a person wrote the email.
_NO = frozenset({"", "no", "false", "0"})
_COMMENT = re.compile(r"\([^()]*\)?")
_PROGRAM_PRECEDENCE = frozenset({"bulk", "junk", "list"})
_PROGRAM_SENDER = re.compile(
    r"(?:[^@]*[._+-])?(?:mailer-daemon|no-?_?reply|do-?_?not-?_?reply|auto-?reply)[@._+-]", re.IGNORECASE
)


def is_auto_responder(headers: EmailHeaders) -> bool:
    """Return whether a person's auto-responder may have written the email, so that it is no bounce."""
    return _has_responder_field(headers) or _matches_subject(_RESPONDER_SUBJECT, headers)


def is_automatic(headers: EmailHeaders, sender: str | None) -> bool:
    """Return whether a program certainly wrote the email. In doubt, a person did, who waits for an answer."""
    submitted = _keyword(headers, "auto-submitted")
    return (
        _has_responder_field(headers)
        or _matches_subject(_AUTOMATIC_SUBJECT, headers)
        or submitted not in _NO
        or _precedence(headers) in _PROGRAM_PRECEDENCE
        or any(headers.first(name).strip().lower() not in _NO for name in _PROGRAM_FIELDS)
        or "".join(headers.first("return-path").split()) == "<>"  # RFC 3834: automatic responses have no return path.
        or headers.first("content-type").lower().startswith("multipart/report")  # for example a read receipt
        or _PROGRAM_SENDER.match(sender or "") is not None
    )


def _has_responder_field(headers: EmailHeaders) -> bool:
    is_stated = any(headers.first(name).strip().lower() not in _NO for name in _RESPONDER_FIELDS)
    return is_stated or _precedence(headers) == "auto-reply"


def _matches_subject(pattern: re.Pattern[str], headers: EmailHeaders) -> bool:
    return pattern.match(decode_words(headers.first("subject"))) is not None


def _precedence(headers: EmailHeaders) -> str:
    return _keyword(headers, "precedence").replace("_", "-")


def _keyword(headers: EmailHeaders, name: str) -> str:
    """Return the value of a header without its comments and parameters."""
    return _COMMENT.sub(" ", headers.first(name)).partition(";")[0].strip().lower()
