"""Submitted sign-up forms: evidence of consent, and values that become attributes once the contact confirms.

Anyone can enter any address, so a submission changes a contact only after the contact has followed its link.
"""

import secrets
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import orjson
from sqlalchemy import and_, insert, select, update

from mailwright.audience.contact_fields import InvalidContact, check_attributes, merge_attributes
from mailwright.audience.forms import SignUpForm
from mailwright.domain.clock import Instant, isoformat
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sign_up_forms import FormAnswers
from mailwright.storage.database import Transaction
from mailwright.storage.tables import contacts, form_submissions


@dataclass(frozen=True, slots=True)
class FormSubmission:
    """A submitted form. `submission_id` is in the link of the confirmation email, and cannot be guessed."""

    form: SignUpForm
    answers: FormAnswers
    locale: str
    source: str  # where the form was: its own page, or the site that embeds it
    submission_id: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def evidence(self) -> list[dict[str, Any]]:
        """The boxes as they were shown, with the exact wording and whether each was ticked."""
        return [
            {"key": each.key, "wording": each.wording, "isGiven": self.answers.consents[each.key]}
            for each in self.form.content.consents
        ]


async def store_submission(tx: Transaction, email: str, submission: FormSubmission, now: Instant) -> None:
    """Store a submission of a contact that exists."""
    form = submission.form
    matching = and_(contacts.c.tenant_id == form.tenant_id, contacts.c.email == email)
    [contact] = await tx.execute(select(contacts.c.id).where(matching))
    await tx.execute(
        insert(form_submissions).values(
            submission_id=submission.submission_id,
            tenant_id=form.tenant_id,
            contact_key=contact.id,
            form_id=form.form_id,
            form_version=form.version,
            list_key=form.list_key,
            attributes=orjson.dumps(dict(submission.answers.attributes)).decode(),
            consents=orjson.dumps(submission.evidence).decode(),
            locale=submission.locale,
            source=submission.source,
            created_at=now,
        )
    )


async def confirm_submission(
    tx: Transaction, tenant_id: int, email: str, *, list_key: str, submission_id: str, now: Instant
) -> None:
    """Apply the values of the submission whose link the contact followed, once."""
    matching = and_(contacts.c.tenant_id == tenant_id, contacts.c.email == email)
    [contact] = await tx.execute(select(contacts.c.id, contacts.c.attributes).where(matching))
    s = form_submissions.c
    own = and_(s.submission_id == submission_id, s.contact_key == contact.id, s.list_key == list_key)
    confirmed = update(form_submissions).where(own, s.confirmed_at.is_(None)).values(confirmed_at=now)
    rows = await tx.execute(confirmed.returning(s.attributes))
    if not rows:
        return
    merged = _merged(orjson.loads(contact.attributes), orjson.loads(rows[0].attributes))
    if merged is not None:
        attributes = orjson.dumps(merged).decode()
        await tx.execute(update(contacts).where(contacts.c.id == contact.id).values(attributes=attributes))


def _merged(known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the contact's new attributes; None if it has no room for them."""
    try:
        return check_attributes(merge_attributes(known, given))
    except InvalidContact:
        return None


async def list_submissions(tx: Transaction, contact_key: int) -> list[dict[str, Any]]:
    """Return the submissions of a contact as JSON, oldest first."""
    s = form_submissions.c
    rows = await tx.execute(select(form_submissions).where(s.contact_key == contact_key).order_by(s.id))
    return [
        {
            "formId": row.form_id,
            "formVersion": row.form_version,
            "listKey": row.list_key,
            "attributes": orjson.loads(row.attributes),
            "consents": orjson.loads(row.consents),
            "locale": row.locale,
            "source": row.source,
            "submittedAt": isoformat(row.created_at),
            "confirmedAt": isoformat(row.confirmed_at),
        }
        for row in rows
    ]
