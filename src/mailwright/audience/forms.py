"""Sign-up forms of a tenant. A change makes a new version, and evidence names the version that people saw."""

import secrets
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson
from sqlalchemy import ColumnElement, and_, delete, func, insert, select, update

from mailwright.audience import lists
from mailwright.domain.clock import Clock, Instant
from mailwright.domain.errors import NotFound, NotPossibleNow
from mailwright.domain.lazy_dataclass import dataclass
from mailwright.domain.sign_up_forms import ConsentBox, FieldType, FormContent, FormField
from mailwright.outbox import audit_log
from mailwright.storage.database import Database, Transaction
from mailwright.storage.tables import form_submissions, forms

MAX_FORMS: Final = 200


class TooManyForms(NotPossibleNow):
    """A tenant can have at most 200 sign-up forms."""

    code = "TOO_MANY_FORMS"


@dataclass(frozen=True, slots=True)
class SignUpForm:
    id: int
    form_id: str
    tenant_id: int
    name: str  # for people in the dashboard
    list_key: str
    content: FormContent
    version: int
    created_at: Instant
    updated_at: Instant


@dataclass(frozen=True, slots=True)
class FormCounts:
    submitted: int = 0
    confirmed: int = 0


class Forms:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def create(self, tenant_id: int, *, name: str, list_key: str, content: FormContent, actor: str) -> SignUpForm:
        now = self._clock.now()
        values = {"form_id": secrets.token_hex(8), "tenant_id": tenant_id, "name": name, "list_key": list_key}
        values |= {"content": _json(content), "version": 1, "created_at": now, "updated_at": now}
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            count = (await tx.execute(select(func.count()).where(forms.c.tenant_id == tenant_id)))[0][0]
            if count >= MAX_FORMS:
                raise TooManyForms
            made = _form((await tx.execute(insert(forms).values(**values).returning(forms)))[0])
            await self._record(tx, actor, "create", made)
        return made

    async def edit(
        self, tenant_id: int, form_id: str, *, name: str, list_key: str, content: FormContent, actor: str
    ) -> SignUpForm:
        """Change a form. Its content gets a new version if it differs."""
        async with self._database.write() as tx:
            await lists.require(tx, tenant_id, list_key)
            before = await _find(tx, tenant_id, form_id, for_update=True)
            values = {"name": name, "list_key": list_key, "content": _json(content), "updated_at": self._clock.now()}
            values["version"] = before.version + (content != before.content)
            changed = update(forms).where(_is(tenant_id, form_id)).values(**values).returning(forms)
            after = _form((await tx.execute(changed))[0])
            await self._record(tx, actor, "edit", after)
        return after

    async def delete(self, tenant_id: int, form_id: str, *, actor: str) -> None:
        """Delete a form. The consents that people gave in it are kept with their contacts."""
        async with self._database.write() as tx:
            found = await _find(tx, tenant_id, form_id, for_update=True)
            await tx.execute(delete(forms).where(forms.c.id == found.id))
            await self._record(tx, actor, "delete", found)

    async def find(self, tenant_id: int, form_id: str) -> SignUpForm:
        async with self._database.read() as tx:
            return await _find(tx, tenant_id, form_id)

    async def find_public(self, form_id: str) -> SignUpForm:
        """Find a form by its public id, whichever tenant it belongs to."""
        async with self._database.read() as tx:
            rows = await tx.execute(select(forms).where(forms.c.form_id == form_id[:64]))
        if not rows:
            raise NotFound
        return _form(rows[0])

    async def count(self, form: SignUpForm) -> FormCounts:
        s = form_submissions.c
        counting = select(func.count().label("submitted"), func.count(s.confirmed_at).label("confirmed"))
        async with self._database.read() as tx:
            own = (s.tenant_id == form.tenant_id, s.form_id == form.form_id)
            [row] = await tx.execute(counting.select_from(form_submissions).where(*own))
        return FormCounts(row.submitted, row.confirmed)

    async def list_all(self, tenant_id: int) -> list[tuple[SignUpForm, FormCounts]]:
        """List the forms by name, with how many people submitted and confirmed them."""
        s = form_submissions.c
        counting = select(s.form_id, func.count().label("submitted"), func.count(s.confirmed_at).label("confirmed"))
        async with self._database.read() as tx:
            rows = await tx.execute(select(forms).where(forms.c.tenant_id == tenant_id).order_by(forms.c.name))
            counts = await tx.execute(counting.where(s.tenant_id == tenant_id).group_by(s.form_id))
        counted = {row.form_id: FormCounts(row.submitted, row.confirmed) for row in counts}
        return [(_form(row), counted.get(row.form_id, FormCounts())) for row in rows]

    async def _record(self, tx: Transaction, actor: str, action: str, form: SignUpForm) -> None:
        await audit_log.record(
            tx,
            self._clock.now(),
            actor=actor,
            action=f"form.{action}",
            subject=form.form_id,
            tenant_id=form.tenant_id,
            detail={"name": form.name, "listKey": form.list_key, "version": form.version},
        )


async def _find(tx: Transaction, tenant_id: int, form_id: str, *, for_update: bool = False) -> SignUpForm:
    query = select(forms).where(_is(tenant_id, form_id))
    rows = await tx.execute(query.with_for_update() if for_update else query)
    if not rows:
        raise NotFound("There is no sign-up form {form_id}.", form_id=repr(form_id[:64]))
    return _form(rows[0])


def _is(tenant_id: int, form_id: str) -> ColumnElement[bool]:
    return and_(forms.c.tenant_id == tenant_id, forms.c.form_id == form_id)


def _json(content: FormContent) -> str:
    return orjson.dumps(asdict(content)).decode()


def _form(row: Any) -> SignUpForm:
    fields = dict(row._mapping)
    fields["content"] = content_from(orjson.loads(fields["content"]))
    return SignUpForm(**fields)


def content_from(stored: Mapping[str, Any]) -> FormContent:
    fields = tuple(
        FormField(**{**each, "type": FieldType(each["type"]), "choices": tuple(each["choices"])})
        for each in stored["fields"]
    )
    consents = tuple(ConsentBox(**each) for each in stored["consents"])
    return FormContent(**{**stored, "fields": fields, "consents": consents})
