"""Choose the slices of a recipient's article, their order and the headline. The same input gives the same bytes.

A slice matches if its scope is one of the recipient's divisions. Ids are only compared for equality, because an id does
not show which divisions contain it: a city's id does not include its county, and Cleveland Heights is not in Cleveland.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import assert_never

from mailwright.domain.clock import Instant, utc_text
from mailwright.domain.lazy_dataclass import dataclass
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
    scope_ocd_id: str | None = None  # None: for everyone
    tags: tuple[str, ...] = ()
    publish_status: PublishStatus = PublishStatus.DRAFT
    publish_at: Instant | None = None
    expires_at: Instant | None = None


def narrowest_scope(slices: Iterable[Slice]) -> str | None:
    """Return the narrowest scope of these slices, which describes their variant; None if all are for everyone."""
    return max((each.scope_ocd_id for each in slices), key=breadth, default=None)


@dataclass(frozen=True, slots=True)
class ArticleLink:
    label: str
    url: str


@dataclass(frozen=True, slots=True)
class Article:
    """An assembled article, shared by all recipients who get the same slices."""

    title: str
    dek: str | None
    body_md: str
    links: tuple[ArticleLink, ...]
    slice_ids: tuple[str, ...]


class Inclusion(StrEnum):
    """Why a slice is, or is not, in a recipient's article."""

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


# Positions in a `SliceSet`, in body order. Recipients with the same selection get the same article.
SliceSelection = tuple[int, ...]


class SliceSet:
    """Slices of one article in body order, with the selection for each set of divisions."""

    def __init__(self, slices: Iterable[Slice]) -> None:
        self.slices = tuple(sorted(slices, key=_body_order))
        self._for_everyone: SliceSelection = tuple(
            position for position, piece in enumerate(self.slices) if piece.scope_ocd_id is None
        )
        self._by_scope: dict[str, list[int]] = {}
        for position, piece in enumerate(self.slices):
            if piece.scope_ocd_id is not None:
                self._by_scope.setdefault(piece.scope_ocd_id, []).append(position)
        self._scopes = frozenset(self._by_scope)
        self._selections: dict[frozenset[str], SliceSelection] = {}

    def select(self, divisions: Collection[str]) -> SliceSelection:
        """Select the slices for a recipient in these divisions; empty if no slice matches."""
        scopes = self._scopes.intersection(divisions)
        if (selection := self._selections.get(scopes)) is None:
            scoped = [position for scope in scopes for position in self._by_scope[scope]]
            selection = self._selections[scopes] = tuple(sorted([*self._for_everyone, *scoped]))
        return selection

    def assemble(self, selection: SliceSelection) -> Article:
        return assemble([self.slices[position] for position in selection])


def published(slices: Iterable[Slice], now: Instant) -> list[Slice]:
    """Return the slices that may be sent now, regardless of the recipient."""
    return [piece for piece in slices if is_published(piece, now)]


def is_published(piece: Slice, now: Instant) -> bool:
    return decide_inclusion(piece, (), now) in (Inclusion.FOR_EVERYONE, Inclusion.OUT_OF_SCOPE)


def decide_inclusion(piece: Slice, divisions: Collection[str], now: Instant) -> Inclusion:
    match piece.publish_status:
        case PublishStatus.DRAFT:
            return Inclusion.DRAFT
        case PublishStatus.ARCHIVED:
            return Inclusion.ARCHIVED
        case PublishStatus.PUBLISHED:
            pass
        case _:
            assert_never(piece.publish_status)
    if piece.publish_at is not None and now < piece.publish_at:
        return Inclusion.NOT_YET
    if piece.expires_at is not None and now >= piece.expires_at:
        return Inclusion.EXPIRED
    if piece.scope_ocd_id is None:
        return Inclusion.FOR_EVERYONE
    return Inclusion.IN_SCOPE if piece.scope_ocd_id in divisions else Inclusion.OUT_OF_SCOPE


def explain_inclusion(piece: Slice, inclusion: Inclusion) -> str:  # noqa: PLR0911 - a table
    match inclusion:
        case Inclusion.FOR_EVERYONE:
            return "The slice has no scope: every recipient gets it."
        case Inclusion.IN_SCOPE:
            return f"{piece.scope_ocd_id} is among the recipient's divisions."
        case Inclusion.OUT_OF_SCOPE:
            return f"{piece.scope_ocd_id} is not among the recipient's divisions."
        case Inclusion.DRAFT:
            return "The slice is a draft."
        case Inclusion.ARCHIVED:
            return "The slice is archived."
        case Inclusion.NOT_YET:
            return f"The slice will be published at {utc_text(piece.publish_at or 0)}."
        case Inclusion.EXPIRED:
            return f"The slice expired at {utc_text(piece.expires_at or 0)}."
        case _:
            assert_never(inclusion)


def assemble(chosen: Sequence[Slice]) -> Article:
    """Assemble an article from at least one slice, given in any order."""
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
    """Return the most specific slice marked as headline, or else the first with a title or dek."""
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
