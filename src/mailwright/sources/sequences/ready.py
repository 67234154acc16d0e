"""Ready-made sequences: complete documents of this project, with their emails, that users copy and change."""

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import BaseModel, ConfigDict

from mailwright.audience import lists, segments
from mailwright.content.formats import TemplateFormat
from mailwright.content.template_store import TemplateDraft, TemplateStore, latest_by_locale
from mailwright.domain.clock import Clock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.sources.sequences.definition import TriggerKind
from mailwright.sources.sequences.records import StoredSequence
from mailwright.sources.sequences.sequences import Sequences
from mailwright.storage.database import Database

_FOLDER: Final = Path(__file__).with_name("ready_made")
# In the order of the gallery, the most common ones first.
READY_NAMES: Final = ("welcome", "onboarding", "abandoned-cart", "review-request", "win-back", "birthday")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ReadyTemplate(_Part):
    subject: str
    document: dict[str, Any]


class ReadySegment(_Part):
    name: str
    filter: dict[str, Any]


class ReadySequence(_Part):
    """A ready-made sequence. Its templates and segments are copied with it, unless the tenant has them already."""

    name: str
    title: str
    description: str
    document: dict[str, Any]
    templates: Mapping[str, ReadyTemplate]
    segments: Mapping[str, ReadySegment] = {}

    @property
    def needs_list(self) -> bool:
        """Whether it starts when people join a list, which the user chooses."""
        return TriggerKind.JOINS_LIST.value in self.document["trigger"]

    def document_for(self, name: str, list_key: str | None) -> dict[str, Any]:
        """Return the document with the tenant's list and a name."""
        document = {**copy.deepcopy(self.document), "name": name}
        document.pop("list", None)
        if list_key is not None:
            document["list"] = list_key
        if self.needs_list:
            document["trigger"] = {TriggerKind.JOINS_LIST.value: list_key}
        return document


@cache
def list_ready() -> Sequence[ReadySequence]:
    """Return all ready-made sequences, in the order of the gallery."""
    return tuple(ReadySequence.model_validate_json((_FOLDER / f"{name}.json").read_bytes()) for name in READY_NAMES)


def find_ready(name: str) -> ReadySequence:
    found = next((each for each in list_ready() if each.name == name), None)
    if found is None:
        raise NotFound(
            "There is no ready-made sequence {name}. Choose one of {ready_names}.",
            field="ready",
            name=repr(name[:80]),
            ready_names=", ".join(READY_NAMES),
        )
    return found


class ReadySequences:
    """Copies ready-made sequences into a tenant."""

    def __init__(self, database: Database, clock: Clock, templates: TemplateStore, sequences: Sequences) -> None:
        self._database = database
        self._clock = clock
        self._templates = templates
        self._sequences = sequences

    async def create(self, tenant_id: int, name: str, *, list_key: str | None, actor: str) -> StoredSequence:
        """Store a ready-made sequence as a draft, with the templates and segments that the tenant does not have."""
        ready = find_ready(name)
        if ready.needs_list and list_key is None:
            raise InvalidInput(
                "{title} starts when people join a list. Choose the list.", field="list", title=ready.title
            )
        if list_key is not None:
            async with self._database.read() as tx:
                await lists.require(tx, tenant_id, list_key, field="list")
        for template_id, template in ready.templates.items():
            await self._copy_template(tenant_id, template_id, template, actor)
        for segment_key, segment in ready.segments.items():
            await self._copy_segment(tenant_id, segment_key, segment, actor)
        document = ready.document_for(await self._unused_name(tenant_id, ready.title), list_key)
        return await self._sequences.create(tenant_id, document, actor=actor)

    async def _copy_template(self, tenant_id: int, template_id: str, template: ReadyTemplate, actor: str) -> None:
        async with self._database.read() as tx:
            if await latest_by_locale(tx, tenant_id, template_id):
                return
        body = orjson.dumps(template.document).decode()
        draft = TemplateDraft(subject=template.subject, body=body, format=TemplateFormat.BLOCKS)
        await self._templates.write(tenant_id, template_id, draft, actor=actor)

    async def _copy_segment(self, tenant_id: int, segment_key: str, segment: ReadySegment, actor: str) -> None:
        try:
            await segments.find(self._database, tenant_id, segment_key)
        except NotFound:
            await segments.create(
                self._database,
                self._clock,
                tenant_id,
                segment_key,
                filter_=segment.filter,
                name=segment.name,
                actor=actor,
            )

    async def _unused_name(self, tenant_id: int, title: str) -> str:
        used = {each.name for each in await self._sequences.list_all(tenant_id)}
        number = 1
        while (name := title if number == 1 else f"{title} {number}") in used:
            number += 1
        return name
