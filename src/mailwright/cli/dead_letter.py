"""`mailwright dead-letter retry`, which retries one or all. The list is derived from the actions."""

from collections.abc import AsyncIterator
from typing import Annotated

import typer
from rich.progress import Progress

from mailwright.actions.dead_letters import noun
from mailwright.cli.derived import make_group
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Tenant
from mailwright.cli.output import aside, out
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.outbox import message_records, tenants
from mailwright.outbox.message_records import DeadLetter
from mailwright.outbox.operations import Operations

app = make_group(noun)

PAGE = 500


@app.command()
def retry(
    outbox_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The message's outboxId.", show_default=False)
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="All dead letters of the tenant.")] = False,
    tenant: Tenant = tenants.DEFAULT,
) -> None:
    """Retry one dead letter, or all dead letters of a tenant, with a fresh set of attempts."""
    if (outbox_id is not None) == is_all:
        raise typer.BadParameter("give a message id or --all")

    async def work(at: Installation) -> int:
        if outbox_id is not None:
            await Operations(at.database, at.clock).requeue(outbox_id, tenant_id=None)
            return 1
        owner = await find_tenant(at, tenant)
        return await _retry_all(at, [one.outbox_id async for one in _dead_letters(at, owner.id)])

    count = run(work)
    out.print(f"{_messages(count)} queued for retry." if count else "There is nothing to retry.")


async def _dead_letters(at: Installation, tenant_id: int) -> AsyncIterator[DeadLetter]:
    before = (message_records.NEWEST, message_records.NEWEST)
    while page := await message_records.dead_letters(at.database, tenant_id, limit=PAGE, before=before):
        for dead_letter in page:
            yield dead_letter
        before = (page[-1].created_at, page[-1].message_key)


async def _retry_all(at: Installation, outbox_ids: list[str]) -> int:
    operations, retried = Operations(at.database, at.clock), 0
    with Progress(console=aside, transient=True) as progress:
        for outbox_id in progress.track(outbox_ids, description="Retrying"):
            try:
                await operations.requeue(outbox_id, tenant_id=None)
            except (NotFound, NotPossibleNow):
                continue  # Someone else has already retried or removed it.
            retried += 1
    return retried


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
