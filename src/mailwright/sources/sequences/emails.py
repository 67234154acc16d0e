"""Write the emails of sequences: messages to people in them, and to the team."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any, Final, NamedTuple

import orjson

from mailwright.audience.segments import load_memberships
from mailwright.content.segments_used import segments_used
from mailwright.content.subject import MAX_CHARACTERS, subject_problem
from mailwright.content.template import InvalidSubject, InvalidTemplate, TemplatePart
from mailwright.content.template_store import TemplateStore
from mailwright.content.variables import KNOWN_VARIABLES
from mailwright.domain.clock import Instant
from mailwright.domain.ids import uuid7, uuid7s
from mailwright.domain.lanes import sequence_lane
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.message import SUBJECT_TEMPLATE, NewMessage, Source
from mailwright.domain.states import OnDoubt, Priority
from mailwright.sources.api.templates import RequestedTemplate, RequestedTemplates, latest_templates
from mailwright.sources.sequences.approval import approved_templates
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.enrolled import Enrolled
from mailwright.sources.sequences.program import Node, Program
from mailwright.storage.database import Transaction

# The variables that Mailwright knows in an email to the team. It has no unsubscribe link.
NOTIFY_VARIABLES: Final = frozenset({"email", "name"})


@dataclass(frozen=True, slots=True)
class StepFailed:
    """Why an email cannot be written."""

    reason: str


class EmailWriter:
    def __init__(self, templates: TemplateStore) -> None:
        self._templates = templates
        self._required: dict[int, frozenset[str]] = {}  # The variables that a template needs, by its key.

    async def write(
        self, tx: Transaction, sequence: Any, program: Program, people: Sequence[Enrolled], now: Instant
    ) -> dict[int, NewMessage | StepFailed]:
        """Return the messages of people who are at an email step, or why there is none, by enrolment."""
        bodies = [program.nodes[person.node].body for person in people]
        templates = await latest_templates(tx, sequence.tenant_id, {each.template for each in bodies}, ())
        await self._load_required(templates)
        segments = templates.segments.union(segments_used(*{each.subject for each in bodies}))
        emails = [person.email for person in people] if segments else []
        members = await load_memberships(tx, sequence.tenant_id, segments, emails, now)
        approved = await approved_templates(tx, sequence.tenant_id, sequence.sequence_id)
        outbox_ids = uuid7s(now, len(people))
        return {
            person.id: self._message(
                sequence,
                program.nodes[person.node],
                person,
                outbox_id,
                templates,
                members=members,
                approved=approved,
            )
            for person, outbox_id in zip(people, outbox_ids, strict=True)
        }

    def _message(
        self,
        sequence: Any,
        node: Node,
        person: Enrolled,
        outbox_id: str,
        templates: RequestedTemplates,
        *,
        members: Mapping[str, Mapping[str, bool]],
        approved: frozenset[int] | None,
    ) -> NewMessage | StepFailed:
        body = node.body
        template = templates.find(body.template, person.email, person.locale)
        if template is None:
            return StepFailed(f"The template {body.template} does not exist. Create it, then retry the step.")
        if approved is not None and template.key not in approved:
            reason = f"The template {body.template} was changed since a second person approved the sequence."
            return StepFailed(f"{reason} Publish the sequence again, then retry the step.")
        variables = {**orjson.loads(person.attributes), **person.start, **body.variables}
        required = self._required[template.key] | required_by_subject(body.subject)
        if lacking := required - variables.keys():
            return lacks_variables(node, lacking)
        payload: dict[str, Any] = {"to": person.email, "toName": person.name, "variables": variables}
        if body.subject is not None:
            payload[SUBJECT_TEMPLATE] = body.subject
        if segments := {*template.segments, *segments_used(body.subject)}:
            known = members[person.email]
            if missing := sorted(segments - known.keys()):
                return StepFailed(f"The template {body.template} names the segment {missing[0]}, which does not exist.")
            payload["inSegments"] = {key: known[key] for key in sorted(segments)}
        return _bulk_message(sequence, person, template, payload, outbox_id)

    async def _load_required(self, templates: RequestedTemplates) -> None:
        keys = {each.key for versions in templates.by_locale.values() for each in versions.values()}
        if new := keys - self._required.keys():
            await self._templates.load(new)
            for key in new:
                if (stored := self._templates.cached(key)) is not None:
                    self._required[key] = stored.compiled().required_variables - KNOWN_VARIABLES


def lacks_variables(node: Node, names: Iterable[str]) -> StepFailed:
    """Return the error for an email that cannot be written without these variables."""
    reason = f"The email of the step {node.id} needs {', '.join(sorted(names))}, which the contact does not have."
    place = "a default to the step" if node.kind is StepKind.NOTIFY else "to the step"
    return StepFailed(f"{reason} Add the value to the contact or {place}, then retry.")


@lru_cache(maxsize=1_000)
def required_by_subject(subject: str | None) -> frozenset[str]:
    return frozenset() if subject is None else TemplatePart("subject", subject).required_variables - KNOWN_VARIABLES


def _bulk_message(
    sequence: Any, person: Enrolled, template: RequestedTemplate, payload: Mapping[str, Any], outbox_id: str
) -> NewMessage:
    key = f"sequence:{person.id}:{person.visit + 1}"
    return NewMessage(
        outbox_id=outbox_id,
        tenant_id=sequence.tenant_id,
        source=Source.SEQUENCE,
        request_id=sequence.sequence_id,
        to_email=person.email,
        subject=payload.get(SUBJECT_TEMPLATE) or template.subject,
        payload=payload,
        recipient_id=person.contact_id,
        external_id=person.contact_id,
        dedupe_key=key,
        template_key=template.key,
        on_doubt=OnDoubt.HOLD,
        priority=Priority.BULK,
        is_bulk=True,
        list_key=sequence.list_key,
        lane=sequence_lane(sequence.tenant_id, sequence.id),
    )


class NotifyTemplate(NamedTuple):
    """The email of a step that notifies the team."""

    subject: TemplatePart
    text: TemplatePart
    required: frozenset[str]

    def render(self, values: Mapping[str, Any]) -> tuple[str, str]:
        """Return the subject and the text.

        A subject that is too long is cut, so that a long value does not stop the run.
        """
        subject = " ".join(self.subject.render(values).split())
        if len(subject) > MAX_CHARACTERS:
            subject = f"{subject[: MAX_CHARACTERS - 1]}…"
        if problem := subject_problem(subject):
            raise InvalidTemplate(problem)
        return subject, self.text.render(values)


@lru_cache(maxsize=1_000)
def notify_template(subject: str, text: str) -> NotifyTemplate:
    """Compile the email of a step that notifies the team. Raise InvalidSubject or InvalidTemplate."""
    try:
        head = _notify_part("subject", subject)
    except InvalidTemplate as error:
        raise InvalidSubject(error) from error
    body = _notify_part("text", text)
    return NotifyTemplate(head, body, (head.required_variables | body.required_variables) - NOTIFY_VARIABLES)


def _notify_part(name: str, source: str) -> TemplatePart:
    part = TemplatePart(name, source)
    if unavailable := sorted(part.variables & (KNOWN_VARIABLES - NOTIFY_VARIABLES)):
        raise InvalidTemplate("{unavailable} is not available in emails to the team.", unavailable=unavailable[0])
    return part


def notification(sequence: Any, node: Node, person: Enrolled, now: Instant) -> NewMessage | StepFailed:
    """Return the email of a step that notifies the team, or why there is none."""
    body = node.body
    values = {"name": person.name or "", **orjson.loads(person.attributes), **person.start, "email": person.email}
    try:
        template = notify_template(body.subject, body.text)
        if lacking := template.required - values.keys():
            return lacks_variables(node, lacking)
        subject, own_text = template.render(values)
    except InvalidTemplate as error:
        return StepFailed(f"The email of the step {node.id} cannot be written. {error} Change the step, then retry.")
    who = f"{person.name} <{person.email}>" if person.name else person.email
    text = f"{own_text}\n\n{who} reached the step {node.id} of the sequence {sequence.name}."
    html = "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n"))
    return NewMessage(
        outbox_id=uuid7(now),
        tenant_id=sequence.tenant_id,
        source=Source.SEQUENCE,
        request_id=sequence.sequence_id,
        to_email=body.to,
        subject=subject,
        payload={"to": body.to, "subject": subject, "html": html, "text": text},
        external_id=sequence.sequence_id,
        dedupe_key=f"sequence:{person.id}:{person.visit + 1}",
        creates_contact=False,
    )
