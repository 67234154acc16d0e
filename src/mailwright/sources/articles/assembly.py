"""Assembly: which slices a reader gets, in which order, under which headline. The same input gives the same bytes.

A scope matches where it is one of the reader's divisions. Nothing is derived from the spelling of an id, because a city
is not within a county by its id, and Cleveland Heights is not in Cleveland.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from mailwright.domain.clock import Instant, isoformat
from mailwright.sources.articles.divisions import breadth


class PublishStatus(StrEnum):
    DRAFT = "draft"
    PUBLISHED = "published"
    ARCHIVED = "archived"


@dataclass(frozen=True, slots=True)
class Slice:
    slice_id: str
    article_key: str
    body_md: str = ""
    section_order: int = 1
    sort_index: int = 0
    is_headline: bool = False
    title: str | None = None
    dek: str | None = None
    link_url: str | None = None
    scope_ocd_id: str | None = None  # None is everyone
    tags: tuple[str, ...] = ()
    publish_status: PublishStatus = PublishStatus.DRAFT
    publish_at: Instant | None = None
    expires_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class ArticleLink:
    words: str
    url: str


@dataclass(frozen=True, slots=True)
class Article:
    """What one reader gets, and everyone else who gets the same slices."""

    title: str
    dek: str | None
    body_md: str
    links: tuple[ArticleLink, ...]
    slice_ids: tuple[str, ...]


class Inclusion(StrEnum):
    """Why a slice is, or is not, in a reader's article."""

    FOR_EVERYONE = "for_everyone"
    IN_SCOPE = "in_scope"
    OUT_OF_SCOPE = "out_of_scope"
    DRAFT = "draft"
    ARCHIVED = "archived"
    NOT_YET = "not_yet"
    EXPIRED = "expired"

    @property
    def is_included(self) -> bool:
        return self in (Inclusion.FOR_EVERYONE, Inclusion.IN_SCOPE)


# Places of an edition's slices, in the order of the body: readers with the same ones get the same article.
SliceSelection = tuple[int, ...]


class SliceSet:
    """The slices of one article that may be sent now. In which order they were given does not matter."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self.slices = tuple(sorted(slices, key=_body_order))
        self._for_everyone: SliceSelection = tuple(
            place for place, each in enumerate(self.slices) if each.scope_ocd_id is None
        )
        self._by_scope: dict[str, list[int]] = {}
        for place, each in enumerate(self.slices):
            if each.scope_ocd_id is not None:
                self._by_scope.setdefault(each.scope_ocd_id, []).append(place)
        self._scopes = frozenset(self._by_scope)
        self._known: dict[frozenset[str], SliceSelection] = {}

    def choose(self, divisions: Collection[str]) -> SliceSelection:
        """What a reader in these divisions gets: empty where there is nothing for them."""
        scopes = self._scopes.intersection(divisions)
        if (known := self._known.get(scopes)) is None:
            scoped = [place for scope in scopes for place in self._by_scope[scope]]
            known = self._known[scopes] = tuple(sorted([*self._for_everyone, *scoped]))
        return known

    def assemble(self, choice: SliceSelection) -> Article:
        return assemble([self.slices[place] for place in choice])


def published(slices: Iterable[Slice], now: Instant) -> list[Slice]:
    """Those that may be sent at this moment, to whomever."""
    return [
        each for each in slices if decide_inclusion(each, (), now) in (Inclusion.FOR_EVERYONE, Inclusion.OUT_OF_SCOPE)
    ]


def decide_inclusion(each: Slice, divisions: Collection[str], now: Instant) -> Inclusion:
    match each.publish_status:
        case PublishStatus.DRAFT:
            return Inclusion.DRAFT
        case PublishStatus.ARCHIVED:
            return Inclusion.ARCHIVED
        case PublishStatus.PUBLISHED:
            pass
        case _:
            assert_never(each.publish_status)
    if each.publish_at is not None and now < each.publish_at:
        return Inclusion.NOT_YET
    if each.expires_at is not None and now >= each.expires_at:
        return Inclusion.EXPIRED
    if each.scope_ocd_id is None:
        return Inclusion.FOR_EVERYONE
    return Inclusion.IN_SCOPE if each.scope_ocd_id in divisions else Inclusion.OUT_OF_SCOPE


def explain_inclusion(each: Slice, found: Inclusion) -> str:  # noqa: PLR0911 - a table
    """In a sentence, for whoever asks why."""
    match found:
        case Inclusion.FOR_EVERYONE:
            return "It has no scope: every reader gets it."
        case Inclusion.IN_SCOPE:
            return f"{each.scope_ocd_id} is among the reader's divisions."
        case Inclusion.OUT_OF_SCOPE:
            return f"{each.scope_ocd_id} is not among the reader's divisions."
        case Inclusion.DRAFT:
            return "It is a draft."
        case Inclusion.ARCHIVED:
            return "It is archived."
        case Inclusion.NOT_YET:
            return f"It is published at {isoformat(each.publish_at)} and not before."
        case Inclusion.EXPIRED:
            return f"It expired at {isoformat(each.expires_at)}."
        case _:
            assert_never(found)


def assemble(chosen: Sequence[Slice]) -> Article:
    """At least one slice, in any order."""
    ordered = sorted(chosen, key=_body_order)
    headline = _headline(ordered)
    titles = (each.title for each in (headline, *ordered) if each.title)
    return Article(
        title=next(titles, None) or ordered[0].article_key.replace("-", " ").capitalize(),
        dek=headline.dek,
        body_md="\n\n".join(each.body_md for each in ordered if each.body_md),
        links=tuple(
            ArticleLink(each.title or each.dek or each.link_url, each.link_url) for each in ordered if each.link_url
        ),
        slice_ids=tuple(each.slice_id for each in ordered),
    )


def _headline(ordered: Sequence[Slice]) -> Slice:
    """The most specific that is meant as one, of equals the first. Otherwise the first with a title or dek."""
    headlines = [each for each in ordered if each.is_headline]
    if headlines:
        return max(headlines, key=lambda each: breadth(each.scope_ocd_id))
    return next((each for each in ordered if each.title or each.dek), ordered[0])


def _body_order(each: Slice) -> tuple[object, ...]:
    return (
        each.section_order,
        breadth(each.scope_ocd_id),
        each.sort_index,
        each.scope_ocd_id or "",
        each.slice_id,
    )
