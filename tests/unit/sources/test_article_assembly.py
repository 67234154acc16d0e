"""Article assembly: which slices a recipient gets, their order and headline, and identical output every time."""

import csv
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.sources.articles import divisions
from mailwright.sources.articles.assembly import (
    Article,
    Inclusion,
    PublishStatus,
    Slice,
    SliceSet,
    assemble,
    decide_inclusion,
    published,
)
from mailwright.sources.articles.compose import markdown
from mailwright.sources.articles.divisions import MalformedDivision, breadth
from tests.articles import (
    CLEVELAND,
    CLEVELAND_HEIGHTS,
    CUYAHOGA,
    FRANKLIN,
    OHIO,
    UPPER_ARLINGTON,
    US,
    a_slice,
)

NOW = 1_800_000_000_000
CORPUS = Path(__file__).resolve().parents[4] / "shared" / "fixtures" / "ocd"
PLACES = [None, US, OHIO, FRANKLIN, CUYAHOGA, UPPER_ARLINGTON, CLEVELAND, CLEVELAND_HEIGHTS]

words = st.text("abc *_#[]\n", max_size=12).map(str.strip)
moments = st.none() | st.integers(NOW - 2, NOW + 2)


@st.composite
def slice_sets(draw: Any) -> list[Slice]:
    """Slices of one article, each at its own position."""
    places = st.tuples(st.integers(1, 3), st.sampled_from(PLACES), st.integers(0, 2))
    return [
        a_slice(
            slice_id=f"slice-{number}",
            section_order=section,
            scope_ocd_id=scope,
            sort_index=index,
            is_headline=draw(st.booleans()),
            title=draw(words) or None,
            dek=draw(words) or None,
            body_md=draw(words),
            publish_status=draw(st.sampled_from(PublishStatus)),
            publish_at=draw(moments),
            expires_at=draw(moments),
        )
        for number, (section, scope, index) in enumerate(draw(st.lists(places, min_size=1, max_size=12, unique=True)))
    ]


readers = st.sets(st.sampled_from([place for place in PLACES if place])).map(sorted)


def article_of(slices: list[Slice], divisions_: list[str]) -> Article | None:
    slice_set = SliceSet(published(slices, NOW))
    selection = slice_set.select(divisions_)
    return slice_set.assemble(selection) if selection else None


@given(slices=slice_sets(), divisions_=readers, data=st.data())
def test_order_of_slices_and_divisions_does_not_matter(
    slices: list[Slice], divisions_: list[str], data: st.DataObject
) -> None:
    first = article_of(slices, divisions_)
    other = article_of(data.draw(st.permutations(slices)), data.draw(st.permutations(divisions_)))
    assert other == first
    if first is not None and other is not None:
        assert markdown(other).encode() == markdown(first).encode()


@given(slices=slice_sets(), divisions_=readers)
def test_recipient_gets_published_slices_for_everyone_or_own_divisions(
    slices: list[Slice], divisions_: list[str]
) -> None:
    wanted = {
        each.slice_id
        for each in slices
        if each.publish_status is PublishStatus.PUBLISHED
        and (each.publish_at is None or each.publish_at <= NOW)
        and (each.expires_at is None or each.expires_at > NOW)
        and (each.scope_ocd_id is None or each.scope_ocd_id in divisions_)
    }
    found = article_of(slices, divisions_)
    assert set(found.slice_ids if found else ()) == wanted
    assert {each.slice_id for each in slices if decide_inclusion(each, divisions_, NOW).is_included} == wanted


@given(slices=slice_sets(), divisions_=readers)
def test_slices_sort_by_section_then_from_broad_to_narrow(slices: list[Slice], divisions_: list[str]) -> None:
    found = article_of(slices, divisions_)
    by_id = {each.slice_id: each for each in slices}
    ordered = [by_id[slice_id] for slice_id in (found.slice_ids if found else ())]
    keys = [(each.section_order, breadth(each.scope_ocd_id), each.sort_index) for each in ordered]
    assert keys == sorted(keys)
    if found:
        assert found.body_md == "\n\n".join(each.body_md for each in ordered if each.body_md)


@given(slices=slice_sets(), divisions_=readers)
def test_headline_is_most_specific_or_first_with_title(slices: list[Slice], divisions_: list[str]) -> None:
    found = article_of(slices, divisions_)
    by_id = {each.slice_id: each for each in slices}
    ordered = [by_id[slice_id] for slice_id in (found.slice_ids if found else ())]
    if not found:
        return
    meant = [each for each in ordered if each.is_headline]
    narrowest = max((breadth(each.scope_ocd_id) for each in meant), default=None)
    candidates = [each for each in meant if breadth(each.scope_ocd_id) == narrowest] or [
        each for each in ordered if each.title or each.dek
    ]
    if candidates:
        assert found.dek == candidates[0].dek
        assert found.title == (candidates[0].title or next((each.title for each in ordered if each.title), found.title))


def test_city_sorts_after_county_despite_shorter_id() -> None:
    ada = f"{OHIO}/place:ada"
    hardin = f"{OHIO}/county:hardin"
    assert len(ada) < len(hardin)
    slices = [a_slice(slice_id=scope, scope_ocd_id=scope) for scope in (ada, hardin, OHIO, US)]
    assert assemble(slices).slice_ids == (US, OHIO, hardin, ada)


def test_unknown_division_types_rank_last() -> None:
    kinds = ["state", "district", "county", "place", "ward", "something_new"]
    ranks = [breadth(f"{US}/{kind}:x")[1] for kind in kinds]
    assert ranks == sorted(ranks)
    assert ranks[0] == ranks[1] < ranks[2] < ranks[3] < ranks[4] < ranks[5]
    assert breadth(None) < breadth(US) < breadth(OHIO)


def test_divisions_are_not_derived_from_the_spelling_of_ids() -> None:
    slices = [a_slice(slice_id=scope, scope_ocd_id=scope) for scope in (CLEVELAND, CUYAHOGA, OHIO)]
    slice_set = SliceSet(slices)
    assert slice_set.select([CLEVELAND_HEIGHTS]) == ()
    assert slice_set.select([f"{CUYAHOGA}/place:olmsted"]) == ()


def test_local_headline_replaces_national_one_for_locals() -> None:
    slices = [
        a_slice(slice_id="1", is_headline=True, title="The nation votes"),
        a_slice(slice_id="2", is_headline=True, title="Franklin votes", scope_ocd_id=FRANKLIN, section_order=9),
    ]
    slice_set = SliceSet(slices)
    assert slice_set.assemble(slice_set.select([FRANKLIN])).title == "Franklin votes"
    assert slice_set.assemble(slice_set.select([OHIO])).title == "The nation votes"


def test_article_without_title_is_named_after_its_key() -> None:
    assert assemble([a_slice()]).title == "Spring vote"


@given(slices=slice_sets(), one=readers, other=readers)
def test_recipients_with_the_same_slices_share_a_selection(
    slices: list[Slice], one: list[str], other: list[str]
) -> None:
    slice_set = SliceSet(published(slices, NOW))
    mine, theirs = slice_set.select(one), slice_set.select([*other, "ocd-division/country:fr"])
    if mine and theirs:
        same = slice_set.assemble(mine).slice_ids == slice_set.assemble(theirs).slice_ids
        assert (mine == theirs) == same


def test_each_slice_has_one_inclusion_reason() -> None:
    slices = {
        Inclusion.FOR_EVERYONE: a_slice(),
        Inclusion.IN_SCOPE: a_slice(scope_ocd_id=OHIO),
        Inclusion.OUT_OF_SCOPE: a_slice(scope_ocd_id=FRANKLIN),
        Inclusion.DRAFT: a_slice(publish_status=PublishStatus.DRAFT),
        Inclusion.ARCHIVED: a_slice(publish_status=PublishStatus.ARCHIVED),
        Inclusion.NOT_YET: a_slice(publish_at=NOW + 1),
        Inclusion.EXPIRED: a_slice(expires_at=NOW),
    }
    assert {found: decide_inclusion(each, [US, OHIO], NOW) for found, each in slices.items()} == {
        each: each for each in Inclusion
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "US",
        "ocd-division/country:us/",
        "ocd-division/country:USA",
        "ocd-division/country:us/state:OH",
        "ocd-division/country:us/state:oh/county:franklin county",
        "ocd-division/country:us//state:oh",
        "ocd-division/state:oh",
        " ocd-division/country:us",
        f"ocd-division/country:us/place:{'x' * 300}",
    ],
)
def test_malformed_division_is_refused(text: str) -> None:
    with pytest.raises(MalformedDivision):
        divisions.parse(text, field="scope_ocd_id")


@pytest.mark.skipif(not CORPUS.exists(), reason="the collection of real ids is not beside this checkout")
def test_real_division_ids_are_parsed_and_ranked() -> None:
    found = [
        row[0]
        for file in sorted(CORPUS.glob("*.csv"))
        for row in csv.reader(file.read_text(encoding="utf-8").splitlines())
        if row and row[0].startswith("ocd-division")
    ]
    assert len(found) > 3_000
    assert [divisions.parse(each, field="id") for each in found] == found
    unknown = len({each for each in found if breadth(each)[1] > breadth(f"{US}/precinct:1")[1]})
    assert unknown == 0
