"""Drafts of the composer on both engines: nobody overwrites what someone else saved."""

import asyncio
from typing import Any

import pytest

from mailwright.content.template_drafts import (
    EDITOR_LIFETIME,
    MAX_DRAFT_BYTES,
    DraftChanged,
    DraftContent,
    DraftKey,
    TemplateDrafts,
)
from mailwright.domain.clock import ManualClock
from mailwright.domain.errors import InvalidInput
from mailwright.storage.database import Database

NEWS = DraftKey(1, "news")


@pytest.fixture
def drafts(database: Database, clock: ManualClock) -> TemplateDrafts:
    return TemplateDrafts(database, clock)


def content(revision: int = 0, **changes: Any) -> DraftContent:
    values: dict[str, Any] = {"base_version": 1, "subject": "News", "document": {"version": 1, "blocks": []}}
    return DraftContent(revision=revision, **{**values, **changes})


@pytest.mark.promise("two-editors")
async def test_stale_save_is_refused_with_the_other(drafts: TemplateDrafts) -> None:
    first = await drafts.save(NEWS, content(), actor="ada")
    second = await drafts.save(NEWS, content(first.revision, subject="From Grace"), actor="grace")
    with pytest.raises(DraftChanged) as changed:
        await drafts.save(NEWS, content(first.revision, subject="From Ada"), actor="ada")
    assert changed.value.current == second
    assert await drafts.find(NEWS) == second


async def test_save_without_a_response_can_be_repeated(drafts: TemplateDrafts) -> None:
    for revision in (0, 1):
        saved = await drafts.save(NEWS, content(revision, subject=f"Text {revision}"), actor="ada")
        assert await drafts.save(NEWS, content(revision, subject=f"Text {revision}"), actor="ada") == saved
        with pytest.raises(DraftChanged):
            await drafts.save(NEWS, content(revision, subject=f"Text {revision}"), actor="grace")


async def test_only_one_browser_begins_a_draft(drafts: TemplateDrafts) -> None:
    names = [f"user{number}" for number in range(8)]
    results = await asyncio.gather(
        *(drafts.save(NEWS, content(), actor=name) for name in names), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in results) == ["DraftChanged"] * 7 + ["SavedDraft"]


async def test_revision_never_goes_back(drafts: TemplateDrafts) -> None:
    first = await drafts.save(NEWS, content(), actor="ada")
    ended = await drafts.save(NEWS, content(first.revision, document=None), actor="ada")
    again = await drafts.save(NEWS, content(ended.revision), actor="grace")
    assert [first.revision, ended.revision, again.revision] == [1, 2, 3]
    with pytest.raises(DraftChanged):
        await drafts.save(NEWS, content(first.revision), actor="ada")


async def test_drafts_of_tenants_and_languages_are_separate(drafts: TemplateDrafts) -> None:
    for key in (NEWS, DraftKey(2, "news"), DraftKey(1, "news", "pt")):
        assert await drafts.find(key) is None
        assert (await drafts.save(key, content(), actor="ada")).revision == 1


async def test_unknown_revision_and_large_documents_are_refused(drafts: TemplateDrafts) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        await drafts.save(NEWS, content(7), actor="ada")
    with pytest.raises(InvalidInput, match="larger than 1024 KB"):
        await drafts.save(NEWS, content(document={"blocks": ["x" * MAX_DRAFT_BYTES]}), actor="ada")


async def test_open_editors_know_of_each_other(drafts: TemplateDrafts, clock: ManualClock) -> None:
    assert await drafts.record_editor(NEWS, "tab1", login="ada") == []
    assert await drafts.record_editor(NEWS, "tab2", login="grace") == ["ada"]
    assert await drafts.record_editor(NEWS, "tab1", login="ada") == ["grace"]
    assert await drafts.record_editor(DraftKey(2, "news"), "tab3", login="mary") == []
    await drafts.forget_editor(NEWS, "tab2")
    assert await drafts.record_editor(NEWS, "tab1", login="ada") == []
    clock.advance(EDITOR_LIFETIME + 1)
    assert await drafts.record_editor(NEWS, "tab4", login="grace") == []
