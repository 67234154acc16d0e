"""Actions on the selected rows of a list. Each row is changed on its own: one failure does not stop the others."""

from collections.abc import Awaitable, Callable
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from mailwright.app.wiring import Engine
from mailwright.audience import contacts, eligibility, erasure, lists, suppressions
from mailwright.audience.contacts import ContactChange
from mailwright.audience.eligibility import Exclusion
from mailwright.domain.errors import InvalidInput, MailwrightError
from mailwright.domain.translation import gettext
from mailwright.texts.times import count_text
from mailwright.web.dashboard.forms import Fields, read_fields, read_values
from mailwright.web.dashboard.shell import PageRoute, local_path, redirect
from mailwright.web.session import EditorDep, Visitor
from mailwright.web.state import EngineDep

router = APIRouter(route_class=PageRoute, include_in_schema=False)

# The maximum number of selected rows: more than a page shows, and few enough for one request.
MAX_SELECTED: Final = 200
_MAX_TAG: Final = 64

# Changes a row, and returns what the user should know about it; None if that is nothing.
Work = Callable[[str], Awaitable[str | None]]


@router.post("/contacts/~bulk")
async def change_contacts(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form = await read_fields(request)
    try:
        work, done = await _contact_work(engine, visitor, form)
    except MailwrightError as error:
        return redirect(request, _back(form, "/contacts"), error.text, tone="bad")
    return await _run(request, form, "/contacts", work, ("contact", done))


@router.post("/messages/~bulk")
async def change_messages(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    form, operations = await read_fields(request), engine.operations

    async def cancel(outbox_id: str) -> None:
        await operations.cancel(outbox_id, tenant_id=visitor.tenant_id, actor=visitor.actor)

    async def retry(outbox_id: str) -> None:
        await operations.requeue(outbox_id, tenant_id=visitor.tenant_id, actor=visitor.actor)

    works: dict[str, tuple[Work, str]] = {"cancel": (cancel, "cancelled"), "retry": (retry, gettext("queued again"))}
    if form["action"] not in works:
        return redirect(request, _back(form, "/messages"), gettext("Choose one of the actions."), tone="bad")
    work, done = works[form["action"]]
    return await _run(request, form, "/messages", work, ("email", done))


@router.post("/suppressions/~bulk")
async def remove_suppressions(request: Request, engine: EngineDep, visitor: EditorDep) -> Response:
    """Remove entries. A selected value is the scope and the address, separated by a space."""

    async def remove(entry: str) -> None:
        scope, _, email = entry.partition(" ")
        await suppressions.remove(
            engine.database, visitor.tenant_id, email, list_key=scope, actor=visitor.actor, clock=engine.clock
        )

    return await _run(request, await read_fields(request), "/suppressions", remove, ("suppression", "removed"))


async def _contact_work(engine: Engine, visitor: Visitor, form: Fields) -> tuple[Work, str]:
    """Return what happens to each contact, and its result in words."""
    database, clock, tenant_id, actor = engine.database, engine.clock, visitor.tenant_id, visitor.actor

    async def add_tag(email: str) -> None:
        known = await contacts.load_details(database, tenant_id, email, messages=0)
        change = ContactChange(tags=sorted({*known.tags, form["tag"]}))
        await contacts.put(database, clock, tenant_id, email, change, actor=actor)

    async def add_to_list(email: str) -> None:
        await contacts.find_by_email(database, tenant_id, email)
        async with database.read() as tx:
            found = await eligibility.find_opt_out(tx, tenant_id, email, form["list"])
        if found is Exclusion.BOUNCED:
            raise InvalidInput("{email} bounced and gets no email. Reactivate the contact first.", email=email)
        if found is Exclusion.UNSUBSCRIBED:
            raise InvalidInput(
                "{email} unsubscribed or said no. Only they, or you on the page of the contact, can subscribe them "
                "again.",
                email=email,
            )
        double_opt_in = await engine.double_opt_in()
        await double_opt_in.subscribe(tenant_id, email, form["list"], source=actor, actor=actor)

    async def suppress(email: str) -> None:
        await contacts.find_by_email(database, tenant_id, email)
        await suppressions.add(database, clock, tenant_id, email, reason="asked for", source=actor, actor=actor)

    async def erase(email: str) -> str | None:
        folder, record = engine.imports_folder, engine.erasure_record
        result = await erasure.erase(
            database, clock, tenant_id, email, actor=actor, imports_folder=folder, record=record
        )
        if result.is_finished:
            return None
        return gettext("Contacts with an unconfirmed email get no more email, and are erased when it has a result.")

    match form["action"]:
        case "tag":
            if not form["tag"] or "," in form["tag"] or len(form["tag"]) > _MAX_TAG:
                raise InvalidInput(
                    gettext("Enter one tag of at most {max_tag} characters, without a comma.", max_tag=_MAX_TAG),
                    field="tag",
                )
            return add_tag, gettext("tagged {form}", form=form["tag"])
        case "list":
            await lists.find(database, tenant_id, form["list"])
            return add_to_list, gettext(
                "added to the list. If the list uses double opt-in, confirmation emails were sent"
            )
        case "suppress":
            return suppress, "suppressed"
        case "erase":
            return erase, "erased"
        case _:
            raise InvalidInput(gettext("Choose one of the actions."), field="action")


async def _run(request: Request, form: Fields, home: str, work: Work, words: tuple[str, str]) -> Response:
    noun, result = words
    selected = list(dict.fromkeys(await read_values(request, "selected")))[:MAX_SELECTED]
    if not selected:
        return redirect(request, _back(form, home), gettext("Select at least one {noun}.", noun=noun), tone="bad")
    failures: list[str] = []
    notes: set[str] = set()
    for each in selected:
        try:
            if (note := await work(each)) is not None:
                notes.add(note)
        except MailwrightError as error:
            failures.append(error.text)
    done = " ".join([f"{count_text(len(selected) - len(failures), noun)} {result}.", *sorted(notes)])
    if not failures:
        return redirect(request, _back(form, home), done)
    text = gettext(
        "{done} {failures} not changed: {failures2}",
        done=done,
        failures=count_text(len(failures), noun),
        failures2=failures[0],
    )
    return redirect(request, _back(form, home), text, tone="bad")


def _back(form: Fields, home: str) -> str:
    """Return to the list with its filters, and never to another page."""
    target = local_path(form["next"])
    return target if target.partition("?")[0] == home else home
