"""Check the Notion tables, the Supabase subscribers and the footer of mailouts."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from mailwright.app.mailouts import mailout_setup, public_url_of
from mailwright.audience import lists
from mailwright.domain.clock import SteadyClock
from mailwright.domain.errors import InvalidInput, NotFound
from mailwright.domain.findings import Finding, ok, problem, warning
from mailwright.ops.settings import Settings
from mailwright.outbox import tenants
from mailwright.providers.http import HttpClient
from mailwright.sources.mailouts.notion import Cell, Notion, NotionError, build_properties
from mailwright.sources.mailouts.setup import MailoutSetup
from mailwright.sources.mailouts.supabase import Supabase, SupabaseError
from mailwright.storage.database import Database

_NOTHING_SENT: Final = "no page can be sent until this is fixed"
_ERRORS_WAIT: Final = "errors are not written to Notion until this is fixed"
_STATUS_WAITS: Final = "bounces and unsubscribes are not written to Supabase until this is fixed"
_SHOWN_STATUSES: Final = 5
_EXAMPLE_TIME: Final = "2027-01-01T00:00:00.000Z"


async def check_mailouts(settings: Settings) -> AsyncIterator[Finding]:
    """Check Notion and Supabase, if they are configured."""
    http = HttpClient(connections=2)
    try:
        if settings.notion_token is not None:
            async for finding in _notion(settings, settings.notion_token.get_secret_value(), http):
                yield finding
        if settings.supabase_url is not None and settings.supabase_service_role_key is not None:
            key = settings.supabase_service_role_key.get_secret_value()
            yield await _subscribers(Supabase(http, settings.supabase_url, key))
    finally:
        await http.close()


async def check_mailout_list(settings: Settings, database: Database) -> AsyncIterator[Finding]:
    """Check that the configured mailout list exists, because its subscribers are the audience."""
    key, name = settings.mailout_list, settings.mailout_tenant
    if key is None:
        return
    try:
        tenant = await tenants.find(database, name)
    except NotFound:
        yield problem("mailouts", f"MAILWRIGHT_MAILOUT_TENANT: there is no tenant {name}", "correct the setting")
        return
    async with database.read() as tx:
        exists = key in await lists.existing_keys(tx, tenant.id, [key])
    if exists:
        yield ok("mailouts", f"MAILWRIGHT_MAILOUT_LIST: the list {key} exists")
    else:
        why = f"MAILWRIGHT_MAILOUT_LIST: the tenant {name} has no list {key}, so no page can be sent"
        yield problem("mailouts", why, f"run `mailwright list create {key}`, or correct the setting")


async def _notion(settings: Settings, token: str, http: HttpClient) -> AsyncIterator[Finding]:
    setup = mailout_setup(settings, 0)
    for finding in (*_local_mailbox(setup), *_footer(settings, setup)):
        yield finding
    notion = Notion(http, token, SteadyClock(), url=settings.notion_url, version=settings.notion_version)
    yield await _table(notion, "NOTION_DB_MAILOUTS", setup.mailouts_database, _mailout_cells(setup), _NOTHING_SENT)
    yield await _table(notion, "NOTION_DB_ERRORS", setup.errors_database, _error_cells(setup), _ERRORS_WAIT)


def _local_mailbox(setup: MailoutSetup) -> Iterator[Finding]:
    if setup.is_local:
        yield warning(
            "mailouts",
            "email goes to the local mailbox only, so no subscriber receives a mailout",
            "set MAILWRIGHT_PROVIDER to the service that delivers email",
        )


def _footer(settings: Settings, setup: MailoutSetup) -> Iterator[Finding]:
    if setup.footer.missing:
        yield problem("mailouts", "no page can be sent without a footer", f"set {', '.join(setup.footer.missing)}")
    if public_url_of(settings) is None:
        yield warning(
            "mailouts",
            "recipients cannot load images from Notion pages",
            "set MAILWRIGHT_BASE_URL to the public address of this installation",
        )


async def _table(
    notion: Notion, setting: str, database: str | None, cells: list[Mapping[str, Cell]], advice: str
) -> Finding:
    if database is None:
        return warning("notion", f"{setting} is not set", "set it to the URL of the table in Notion")
    try:
        source = await notion.data_source(database, setting=setting)
    except (NotionError, InvalidInput) as error:
        return problem("notion", str(error), advice)
    skipped = {sentence for some in cells for sentence in build_properties(source, some).skipped.values()}
    if skipped:
        return warning(
            "notion", " ".join(sorted(skipped)), "change the table in Notion; until then, these values are not written"
        )
    return ok("notion", f"{setting}: the table {source.name!r} has every column")


async def _subscribers(supabase: Supabase) -> Finding:
    try:
        await supabase.probe()
        await supabase.probe_columns()
    except SupabaseError as error:
        return problem("supabase", str(error), _NOTHING_SENT)
    try:
        limits_updates = await supabase.probe_update()
        unknown = await _count_unknown_statuses(supabase)
    except SupabaseError as error:
        return problem("supabase", str(error), _STATUS_WAITS)
    if unknown:
        names = ", ".join(f"{status!r} ({count:,})" for status, count in unknown.most_common(_SHOWN_STATUSES))
        return warning(
            "supabase",
            f"{unknown.total():,} subscribers have an unknown status and receive no mailout: {names}",
            "set their status to active, unsubscribed or bounced, spelled exactly like this",
        )
    how = (
        "" if limits_updates else "; its PostgREST is older than 12.1 and cannot limit how many rows an update changes"
    )
    return ok("supabase", f"subscribers can be read and updated{how}")


async def _count_unknown_statuses(supabase: Supabase) -> Counter[str]:
    return Counter([row.status[:50] async for rows in supabase.inactive() for row in rows if not row.is_known])


def _mailout_cells(setup: MailoutSetup) -> list[Mapping[str, Cell]]:
    """Return all cells that Mailwright writes to a mailout's row, and the test checkbox, which it reads."""
    names = setup.columns
    counts = (names.sent_count, names.failed_count, names.delivered_count, names.bounce_rate, names.unsub_rate)
    cells: dict[str, Cell] = {**dict.fromkeys(counts, 0), names.sent_at: _EXAMPLE_TIME, names.test: False}
    statuses = setup.statuses
    options = [statuses.send, statuses.failed, statuses.in_progress, statuses.not_started]
    if len(statuses.triggers) > 1:
        options += statuses.triggers.values()
    return [{**cells, names.status: status} for status in options if status is not None]


def _error_cells(setup: MailoutSetup) -> list[Mapping[str, Cell]]:
    names = setup.error_columns
    words = (names.name, names.mailout_id, names.provider, names.stage, names.email, names.error_code)
    cells: dict[str, Cell] = {**dict.fromkeys(words, "x"), names.error_message: "x"}
    return [{**cells, names.timestamp: _EXAMPLE_TIME, names.is_test: False, names.retry_count: 0}]
