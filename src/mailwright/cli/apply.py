"""`mailwright apply`: change the installation as a file describes it."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import unified_diff
from typing import Annotated, Any

import typer

from mailwright.access.api_keys import Caller
from mailwright.actions.declaration import DeclaredAction
from mailwright.cli import remote
from mailwright.cli.configuration import Call, Fields, FileChange, batches, digest_of, plan, without_effect
from mailwright.cli.derived import console_context, perform
from mailwright.cli.exit_codes import NEGATIVE
from mailwright.cli.opening import Installation, find_tenant, run
from mailwright.cli.options import Json, Tenant, command
from mailwright.cli.output import aside, out, print_json
from mailwright.cli.yaml_file import YamlFile
from mailwright.domain.errors import InvalidInput, MailwrightError, NotPossibleNow
from mailwright.outbox import tenants
from mailwright.outbox.audit_log import CONSOLE
from mailwright.sources.api.validation import parse
from mailwright.storage.one_transaction import OneTransaction

app = command()

_SIGNS = {"create": "+", "edit": "~", "delete": "-"}


class _RolledBack(Exception):
    """The transaction was only a trial."""


@app.command()
def apply(
    file: Annotated[
        typer.FileText,
        typer.Argument(metavar="FILE", help="A YAML file, as `mailwright export` writes it; - reads stdin."),
    ],
    *,
    diff: Annotated[bool, typer.Option("--diff", help="Change nothing; show what would change, per field.")] = False,
    plan_only: Annotated[
        bool, typer.Option("--plan", help="Change nothing; show what would change, and its digest.")
    ] = False,
    digest: Annotated[
        str | None,
        typer.Option(help="Apply only the plan with this digest, as --plan shows it.", show_default=False),
    ] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Delete what the sections of the file do not name.")] = False,
    tenant: Tenant = tenants.DEFAULT,
    as_json: Json = False,
) -> None:
    """Change lists, segments, templates, brand, forms, sequences, webhooks, domains … as a file says.

    What the file does not name stays as it is, except with --prune. The same file again changes nothing.
    """
    written, is_trial = YamlFile(file.read()), diff or plan_only
    work = _remotely if remote.server() is not None else _locally
    changes = work(written, tenant=tenant, prunes=prune, digest=digest, is_trial=is_trial)
    if as_json:
        found = {"changes": [each.to_dict() for each in changes], "digest": digest_of(changes)}
        print_json({**found, "isApplied": not is_trial})
        return
    for each in changes:
        _print(each, with_fields=diff)
    if not changes:
        out.print("Nothing to change.")
    elif is_trial:
        out.print(f"Changes: {len(changes)}. Nothing was changed. Digest: {digest_of(changes)}")
    else:
        out.print(f"Applied changes: {len(changes)}.")


def local_call(at: Installation, owner: tenants.Tenant) -> Call:
    """Return the function that runs an action on this installation, for the tenant or for the whole installation."""
    platform = console_context(at)
    of_tenant = replace(platform, caller=Caller(owner.id, owner.name, actor=CONSOLE))

    async def call(action: DeclaredAction, path: Mapping[str, str], values: Fields) -> Fields:
        given: list[Any] = [path[name] for name in action.parameters]
        if action.input is not None:
            given.append(parse(action.input, values))
        result = await action.run(platform if action.is_platform else of_tenant, *given)
        return {} if result is None else result.to_dict()

    return call


def remote_call(tenant: str) -> Call:
    """Return the function that runs an action on another server."""

    async def call(action: DeclaredAction, path: Mapping[str, str], values: Fields) -> Fields:
        result = perform(action, values, path=path, tenant=tenant)
        return {} if result is None else dict(result.to_dict())

    return call


def _locally(file: YamlFile, *, tenant: str, prunes: bool, digest: str | None, is_trial: bool) -> list[FileChange]:
    """Do everything in one transaction. A trial does the same, so that it finds the same problems, and rolls back."""
    effective: list[FileChange] = []

    async def work(at: Installation) -> None:
        owner = await find_tenant(at, tenant)
        async with at.database.write() as tx:
            call = local_call(replace(at, database=OneTransaction(at.database, tx)), owner)
            changes = await plan(call, file, prunes=prunes)
            for batch in batches(changes):
                await _write(call, batch)
            idle = await without_effect(call, changes)
            effective.extend(each for each in changes if each not in idle)
            _require_digest(effective, digest)
            if is_trial or not effective:
                raise _RolledBack

    with suppress(_RolledBack):
        run(work)
    return effective


async def _write(call: Call, batch: Sequence[FileChange]) -> None:
    """Write changes, and name them in an error."""
    try:
        await batch[0].section.write(call, batch)
    except MailwrightError as error:
        raise NotPossibleNow(f"{_title(batch[0])}: {_reason(error)} Nothing was changed.") from error


def _remotely(file: YamlFile, *, tenant: str, prunes: bool, digest: str | None, is_trial: bool) -> list[FileChange]:
    """Validate everything, then write one object after the other. An error stops, and reports what was done."""

    async def work() -> list[FileChange]:
        call = remote_call(tenant)
        changes = await plan(call, file, prunes=prunes)
        _require_digest(changes, digest)
        waiting = [] if is_trial else batches(changes)
        for number, batch in enumerate(waiting):
            try:
                await batch[0].section.write(call, batch)
            except MailwrightError as error:
                _report(waiting, number, error)
                raise typer.Exit(NEGATIVE) from error
        return changes

    return asyncio.run(work())


def _report(all_: Sequence[Sequence[FileChange]], failed: int, error: MailwrightError) -> None:
    for title, part in (("Applied", all_[:failed]), ("Not applied", all_[failed + 1 :])):
        for each in (each for batch in part for each in batch):
            aside.print(f"{title}: {_title(each)}", markup=False, soft_wrap=True)
    aside.print(f"Failed: {_title(all_[failed][0])}: {_reason(error)}", markup=False, soft_wrap=True)


def _require_digest(changes: Sequence[FileChange], digest: str | None) -> None:
    if digest is not None and digest_of(changes) != digest:
        raise InvalidInput("the plan has changed since. Look at it again with --plan.", field="--digest")


def _reason(error: MailwrightError) -> str:
    several = getattr(error, "errors", ())
    return "; ".join(f"{each.field}: {each.message}" for each in several) or str(error)


def _title(change: FileChange) -> str:
    return f"{change.section.name} {change.key}".rstrip()


def _print(change: FileChange, *, with_fields: bool) -> None:
    out.print(f"{_SIGNS[change.kind]} {_title(change)}", markup=False, soft_wrap=True)
    for field in change.to_dict()["fields"] if with_fields else ():
        for line in _lines(field["field"], field["before"], field["after"]):
            out.print(f"    {line}", markup=False, soft_wrap=True)


def _lines(name: str, before: Any, after: Any) -> list[str]:
    if "\n" in f"{before}{after}":
        old, new = (str(each or "").splitlines() for each in (before, after))
        return [f"{name}:", *list(unified_diff(old, new, lineterm="", n=1))[2:]]
    return [f"{name}: {after}" if before is None else f"{name}: {before} → {after}"]
