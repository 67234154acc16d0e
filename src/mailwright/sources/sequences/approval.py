"""The approval of a sequence by a second person: its steps, the templates they use, and how many people it can reach.

Nobody knows in advance who will enter, so the number is only shown, and every sequence needs the approval. After an
approval, a step sends only the versions of templates that were approved.
"""

from sqlalchemy import func, select

from mailwright.audience.eligibility import may_receive
from mailwright.domain.clock import Clock
from mailwright.sources.api.templates import latest_templates
from mailwright.sources.send_approvals import PlannedSend, SendKind, find_approved, require_approval
from mailwright.sources.sequences.definition import StepKind
from mailwright.sources.sequences.records import StoredSequence, find_sequence
from mailwright.sources.sequences.versions import Published, published_from
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import contacts


async def require_publication(
    database: Database, clock: Clock, tenant_id: int, sequence_id: str, *, actor: str
) -> tuple[int, str]:
    """Return the revision of the draft and the digest of its approval. Raise if the draft may not be published now."""
    async with database.read() as tx:
        sequence = await find_sequence(tx, tenant_id, sequence_id)
        planned = await _planned(tx, sequence, published_from(sequence.draft))
    await require_approval(database, clock, planned, actor=actor)
    return sequence.revision, planned.digest


async def approved_templates(tx: Transaction, tenant_id: int, sequence_id: str) -> frozenset[int] | None:
    """Return the template versions that a second person approved; None if no approval was required."""
    approval = await find_approved(tx, tenant_id, SendKind.SEQUENCE, sequence_id)
    return None if approval is None else frozenset(approval.content["versions"])


async def _planned(tx: Transaction, sequence: StoredSequence, draft: Published) -> PlannedSend:
    ids = {node.body.template for node in draft.program.nodes if node.kind is StepKind.SEND}
    found = await latest_templates(tx, sequence.tenant_id, ids, ())
    versions = {template_id: found.by_locale.get(template_id, {}) for template_id in sorted(ids)}
    list_key = draft.definition.list_key
    eligible = may_receive(sequence.tenant_id, [] if list_key is None else [list_key])
    rows = await tx.execute(select(func.count()).select_from(contacts).where(eligible))
    content = {
        "sequence": sequence.name,
        "list": list_key,
        "subjects": {name: sorted({each.subject for each in known.values()}) for name, known in versions.items()},
        "versions": sorted(each.key for known in versions.values() for each in known.values()),
        "document": sequence.draft,
    }
    return PlannedSend(
        sequence.tenant_id, SendKind.SEQUENCE, sequence.sequence_id, sequence.name, int(rows[0][0]), content
    )
