"""Find the recipients of an article among the rows of the table."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

from mailwright.domain import address
from mailwright.domain.errors import InvalidInput
from mailwright.domain.unsubscribe_tokens import GENERAL
from mailwright.sources.articles.profiles.columns import COLUMNS
from mailwright.sources.articles.profiles.reads import ReadPage, RefusedProfile, find_excluded
from mailwright.sources.articles.profiles.rows import InvalidProfile, Profile, parse_email, parse_profile
from mailwright.sources.articles.profiles.table import ProfileRows, ProfileTable, all_rows
from mailwright.sources.articles.recipients import LIST, ArticleAudience, ArticleRecipient
from mailwright.storage.database import Database


def check_list(table: ProfileTable, audience: ArticleAudience) -> None:
    """Raise if the audience is a list, but no column says who is on it."""
    if audience.list_key != GENERAL and table.columns.lists is None:
        raise InvalidInput(
            "{setting} names no column of lists, so nobody is on the list {list_key}",
            field=f"audience_filter.{LIST}",
            setting=COLUMNS,
            list_key=audience.list_key,
        )


async def find_profile(table: ProfileTable, email: str) -> Profile:
    """Return the first row of an address, as a run would use it."""
    try:
        rows = await table.rows_of(parse_email(email))
        if rows:
            return parse_profile(rows[0])
    except InvalidProfile as error:
        raise InvalidInput("The row of this address cannot be used: {reason}", field="email", reason=error) from error
    raise InvalidInput("There is no row with this address in {source}", field="email", source=table.description)


async def sendable_pages(
    database: Database, table: ProfileTable, tenant_id: int, audience: ArticleAudience
) -> AsyncIterator[list[ArticleRecipient]]:
    """Yield the recipients in pages. An address with several spellings may be on several pages."""
    async for rows in all_rows(table):
        page = parse_page(rows, audience)
        matching = {profile.email: profile for profile in page.matching}
        async with database.read() as tx:
            excluded = await find_excluded(tx, tenant_id, audience.list_key, matching)
        excluded.update(page.excluded)
        yield [recipient_of(profile) for email, profile in matching.items() if email not in excluded]


def parse_page(rows: ProfileRows, audience: ArticleAudience) -> ReadPage:
    """Sort the rows of a page: those that match the audience, excluded ones, and those that cannot be used."""
    matching: list[Profile] = []
    excluded: list[str] = []
    refused: list[RefusedProfile] = []
    for row in rows:
        try:
            profile = parse_profile(row)
        except InvalidProfile as error:
            refused.append(RefusedProfile(_masked(row), str(error)))
            continue
        if not profile.is_active:
            excluded.append(profile.email)
        elif profile.is_on(audience.list_key) and audience.includes(recipient_of(profile)):
            matching.append(profile)
    return ReadPage(len(rows), tuple(matching), tuple(excluded), tuple(refused))


def recipient_of(profile: Profile, contact_key: int = 0) -> ArticleRecipient:
    return ArticleRecipient(contact_key, profile.email, profile.name, profile.attributes, profile.divisions)


def _masked(row: Mapping[str, Any]) -> str:
    email = row.get("email")
    return address.mask(email)[:100] if isinstance(email, str) else ""
