"""Check the table of another program that has the recipients of articles."""

from collections.abc import AsyncIterator

from mailwright.app.profiles import open_profiles
from mailwright.domain.errors import ConfigurationInvalid, NotFound
from mailwright.domain.findings import Finding, ok, problem, warning
from mailwright.ops.settings import Settings
from mailwright.sources.articles.profiles.errors import ProfilesError
from mailwright.sources.articles.profiles.table import ProfileSource
from mailwright.storage.database import Database

NAME = "profiles"


async def check_profiles(settings: Settings, database: Database) -> AsyncIterator[Finding]:
    """Check that the table can be read and written, if it is configured."""
    try:
        async with open_profiles(settings, database) as source:
            if source is not None:
                yield await _check(settings, source)
    except ConfigurationInvalid:
        return  # The check of the settings reports it.


async def _check(settings: Settings, source: ProfileSource) -> Finding:
    table = source.table
    try:
        await source.tenant_id()
    except NotFound:
        why = f"MAILWRIGHT_PROFILES_TENANT: there is no tenant {settings.profiles_tenant}"
        return problem(NAME, why, "correct the setting")
    try:
        await table.probe()
    except ProfilesError as error:
        return problem(NAME, str(error), "no article can be sent until this is fixed")
    if table.columns.status is None:
        why = f"{table.description} can be read, and has no column for unsubscribes and bounces"
        return warning(NAME, why, "add one and name it in MAILWRIGHT_PROFILES_COLUMNS, for example status=mail_status")
    try:
        await table.probe_update()
    except ProfilesError as error:
        return problem(NAME, str(error), "unsubscribes and bounces are not written to the table until this is fixed")
    written = [each for each in (table.columns.status, table.columns.lists) if each is not None]
    noun = "columns" if len(written) > 1 else "column"
    return ok(NAME, f"{table.description} can be read, and its {noun} {' and '.join(written)} can be written")
