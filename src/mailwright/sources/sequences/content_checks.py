"""Check the emails of a sequence before it is published, with the pre-send check of campaigns."""

from dataclasses import replace

from sqlalchemy import exists, select

from mailwright.audience.eligibility import is_known
from mailwright.content.brand_store import load_brand
from mailwright.content.content_check import check_content
from mailwright.content.presend_checks import IssueLevel, PresendContext, PresendIssue, presend_issue
from mailwright.content.template_store import StoredTemplate, latest_by_locale
from mailwright.content.template_syntax import InvalidSubject, InvalidTemplate
from mailwright.content.variables import KNOWN_VARIABLES
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.translation import lazy_gettext
from mailwright.sources.api.validation import FieldError
from mailwright.sources.sequences.definition import Definition, InvalidSequence, SequenceStep, StepKind
from mailwright.sources.sequences.emails import notify_template
from mailwright.storage.database import Transaction
from mailwright.storage.expressions import json_text
from mailwright.storage.tables import contacts

# What started a run: properties of the event, fields of the feed item.
_START_VARIABLES = frozenset({"event", "item"})


@dataclass(frozen=True, slots=True)
class PublishWarning:
    """A warning about the email of a step, about the step itself, or about the feed of the trigger."""

    step: str | None
    template: str | None
    locale: str
    code: str
    sentence: str


async def check_emails(
    tx: Transaction, tenant_id: int, definition: Definition, postal_address: str | None
) -> tuple[PublishWarning, ...]:
    """Return the warnings about all emails. Raise InvalidSequence if one has an error."""
    context, brand = PresendContext(postal_address=postal_address), await load_brand(tx, tenant_id)
    warnings: dict[PublishWarning, None] = {}
    problems: list[FieldError] = []
    for step in definition.walk():
        body = step.body
        if step.kind is StepKind.NOTIFY:
            try:
                required = notify_template(body.subject, body.text).required
            except InvalidTemplate as error:
                problems.append(notify_problem(step.where, error))
                continue
            for issue in await _unknown_variables(tx, tenant_id, required):
                warnings[PublishWarning(step.id, None, "", issue.code, issue.sentence)] = None
        if step.kind is not StepKind.SEND:
            continue
        for stored in (await latest_by_locale(tx, tenant_id, body.template)).values():
            sent = stored if body.subject is None else replace(stored, subject=body.subject)
            issues = check_content(sent, brand, context)
            if all(issue.level is not IssueLevel.ERROR for issue in issues):  # Else it may not compile.
                required = sent.compiled().required_variables - KNOWN_VARIABLES - body.variables.keys()
                issues += await _unknown_variables(tx, tenant_id, required)
            for issue in issues:
                if issue.level is IssueLevel.ERROR:
                    problems.append(_problem(step, stored, issue))
                else:
                    found = PublishWarning(step.id, body.template, stored.locale, issue.code, issue.sentence)
                    warnings[found] = None
    if problems:
        raise InvalidSequence(problems)
    return tuple(warnings)


async def _unknown_variables(tx: Transaction, tenant_id: int, required: frozenset[str]) -> list[PresendIssue]:
    """Warn about variables that the step does not set and nobody has, because the step fails without them."""
    found = []
    for name in sorted(required - _START_VARIABLES):
        has_value = exists().where(is_known(tenant_id), json_text(contacts.c.attributes, name).is_not(None))
        [row] = await tx.execute(select(has_value.label("is_known")))
        if not row.is_known:
            sentence = lazy_gettext(
                "{variable} is used, but no contact has this attribute. The step fails without it.",
                variable=f"{{{{ {name} }}}}",
            )
            found.append(replace(presend_issue("UNKNOWN_VARIABLE", sentence, "html"), level=IssueLevel.WARNING))
    return found


def notify_problem(where: str, error: InvalidTemplate) -> FieldError:
    """Return which field of a step that notifies the team cannot be rendered, and why."""
    field = "subject" if isinstance(error, InvalidSubject) else "text"
    return FieldError(f"{where}.notify.{field}", "INVALID_TEMPLATE", str(error))


def _problem(step: SequenceStep, stored: StoredTemplate, issue: PresendIssue) -> FieldError:
    is_own = issue.where == "subject" and step.body.subject is not None
    field = f"{step.where}.send.{'subject' if is_own else 'template'}"
    if is_own:
        return FieldError(field, issue.code, issue.sentence)
    name = f"{step.body.template} ({stored.locale})" if stored.locale else step.body.template
    return FieldError(field, issue.code, lazy_gettext("template {name}: {problem}", name=name, problem=issue.sentence))
