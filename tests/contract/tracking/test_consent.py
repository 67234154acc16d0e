"""Where contacts give and withdraw their consent to tracking."""

import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from mailwright.audience.importing.imports import Imports
from mailwright.audience.importing.plan import ImportOptions
from mailwright.domain.clock import MINUTE, ManualClock
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens
from mailwright.storage.database import Database
from mailwright.storage.tables import audit_log, contacts, lists, subscriptions, tenants
from mailwright.web.app import create_app
from mailwright.web.public.subscribers import link_secrets
from tests.api import an_engine, client_of, proof_of_work
from tests.campaigns import NEWS, a_list, join
from tests.tracking import Tracking, a_tracking, html_of

ANN = "ann@example.com"
WORDING = "You may record which of your emails I open and which links I click. I can withdraw this at any time."


@pytest.fixture
async def tracking(database: Database, clock: ManualClock, tmp_path: Path) -> AsyncIterator[Tracking]:
    async with a_tracking(database, clock, tmp_path) as tracking:
        yield tracking


async def consent_of(tracking: Tracking, email: str = ANN) -> dict[str, Any] | None:
    answer = await tracking.api.client.get(f"/v1/contacts/{email}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] | None = answer.json()["trackingConsent"]
    return found


async def preferences_of(tracking: Tracking) -> str:
    tokens = UnsubscribeTokens(await _secret(tracking))
    return f"/preferences?token={tokens.make(ANN)}"


async def _secret(tracking: Tracking) -> str:
    return (await link_secrets(tracking.api.engine))[0]


async def test_api_records_and_withdraws_consent(tracking: Tracking) -> None:
    given = {"isGiven": True, "wording": " I  agree. ", "source": "account page", "at": "2026-01-02T03:04:05Z"}
    answer = await tracking.api.client.put(f"/v1/contacts/{ANN}", json={"trackingConsent": given})
    assert answer.json()["trackingConsent"] == {**given, "wording": "I agree.", "at": "2026-01-02T03:04:05.000Z"}
    await tracking.api.client.put(f"/v1/contacts/{ANN}", json={"trackingConsent": {"isGiven": False}})
    consent = await consent_of(tracking)
    assert consent is not None
    assert (consent["isGiven"], consent["wording"], consent["source"]) == (False, None, "api")


@pytest.mark.parametrize(
    ("consent", "field"),
    [
        ({"isGiven": True}, "trackingConsent.wording"),
        ({"isGiven": True, "wording": "x" * 2_000}, "trackingConsent.wording"),
        ({"isGiven": True, "wording": "x", "at": "2199-01-01T00:00:00Z"}, "trackingConsent.at"),
        ({"wording": "x"}, "trackingConsent.isGiven"),
    ],
)
async def test_api_refuses_incomplete_consent(tracking: Tracking, consent: dict[str, Any], field: str) -> None:
    answer = await tracking.api.client.put(f"/v1/contacts/{ANN}", json={"trackingConsent": consent})
    assert answer.status_code == 422
    assert field in answer.text


@pytest.mark.both_engines
async def test_preferences_page_gives_and_withdraws_consent(tracking: Tracking) -> None:
    await join(tracking.bench.database, [ANN])
    page = await preferences_of(tracking)
    assert WORDING in (await tracking.api.anonymous.get(page)).text
    form = {"shown": NEWS, "list": NEWS, "asked": "en"}
    assert "are recorded" in (await tracking.api.anonymous.post(page, data={**form, "tracking": "yes"})).text
    consent = await consent_of(tracking)
    assert consent is not None
    assert (consent["isGiven"], consent["wording"], consent["source"]) == (True, WORDING, "preferences page")
    assert "no longer recorded" in (await tracking.api.anonymous.post(page, data=form)).text
    withdrawn = await consent_of(tracking)
    assert withdrawn is not None
    assert withdrawn["isGiven"] is False


@pytest.mark.parametrize("level", ["tenant", "installation"])
async def test_page_asks_only_if_individuals_can_be_tracked(
    tracking: Tracking, database: Database, clock: ManualClock, tmp_path: Path, level: str
) -> None:
    await join(tracking.bench.database, [ANN])
    page = await preferences_of(tracking)
    if level == "tenant":
        async with database.write() as tx:
            await tx.execute(update(tenants).values(tracking="anonymous"))
        assert WORDING not in (await tracking.api.anonymous.get(page)).text
    else:
        engine = an_engine(database, clock, tracking="anonymous", tracking_spool=tmp_path)
        async with client_of(create_app(engine)) as client:
            assert WORDING not in (await client.get(page)).text
        await engine.close()


async def sign_up(tracking: Tracking, *, ticked: bool) -> None:
    data = {"email": ANN, **({"tracking": "yes"} if ticked else {})}
    data |= await proof_of_work(tracking.api.anonymous, f"/subscribe/{NEWS}")
    answer = await tracking.api.anonymous.post(f"/subscribe/{NEWS}", data=data)
    assert answer.status_code == 200


async def confirmations(tracking: Tracking) -> list[str]:
    """Return the confirmation emails that the contact received, oldest first."""
    await tracking.bench.drain(tracking.provider)
    return [html_of(sent.content) for sent in tracking.provider.messages]


async def follow(tracking: Tracking, email: str) -> None:
    [link] = re.findall(r'href="[^"]*(/confirm[^"]*)"', email)
    page = (await tracking.api.anonymous.get(unescape(link))).text
    [action] = re.findall(r'action="(confirm[^"]*)"', page)
    answer = await tracking.api.anonymous.post(f"/{unescape(action)}")
    assert answer.status_code == 200


@pytest.fixture
async def careful(tracking: Tracking) -> Tracking:
    """Tracking with a list that requires double opt-in."""
    await a_list(tracking.bench.database)
    async with tracking.bench.database.write() as tx:
        await tx.execute(update(lists).values(requires_confirmation=True))
    return tracking


@pytest.mark.both_engines
async def test_consent_counts_after_its_confirmation(careful: Tracking) -> None:
    assert WORDING in (await careful.api.anonymous.get(f"/subscribe/{NEWS}")).text
    await sign_up(careful, ticked=True)
    assert await consent_of(careful) is None
    [email] = await confirmations(careful)
    assert WORDING in email
    await follow(careful, email)
    consent = await consent_of(careful)
    assert consent is not None
    assert (consent["isGiven"], consent["wording"], consent["source"]) == (True, WORDING, "sign-up form")
    async with careful.bench.database.read() as tx:
        audited = await tx.execute(select(audit_log.c.subject).where(audit_log.c.action == "contact.tracking_consent"))
    assert [row.subject for row in audited] == [ANN]


@pytest.mark.parametrize("is_subscribed", [True, False])
async def test_form_without_double_opt_in_never_gives_consent(tracking: Tracking, is_subscribed: bool) -> None:
    await (join(tracking.bench.database, [ANN]) if is_subscribed else a_list(tracking.bench.database))
    assert WORDING not in (await tracking.api.anonymous.get(f"/subscribe/{NEWS}")).text
    await sign_up(tracking, ticked=True)
    assert await consent_of(tracking) is None


@pytest.mark.parametrize("wait", [1, 40 * 24 * 60])
@pytest.mark.parametrize("forms", [(True, False), (False, True), (True, False, True)])
@pytest.mark.parametrize("is_last_link", [True, False])
async def test_consent_needs_the_link_of_its_own_request(
    careful: Tracking, wait: int, forms: tuple[bool, ...], is_last_link: bool
) -> None:
    for ticked in forms:
        await sign_up(careful, ticked=ticked)
        careful.clock.advance(wait * MINUTE)
    emails = await confirmations(careful)
    followed = emails[-1 if is_last_link else 0]
    await follow(careful, followed)
    is_last_request_ticked = forms[-1] and wait > 1  # A form right after another one sends no email.
    expected = is_last_request_ticked and WORDING in followed
    assert (await consent_of(careful) is not None) is expected


async def test_unticked_preferences_discard_requested_consent(careful: Tracking) -> None:
    await sign_up(careful, ticked=True)
    [email] = await confirmations(careful)
    form = {"shown": NEWS, "asked": "en"}
    assert (await careful.api.anonymous.post(await preferences_of(careful), data=form)).status_code == 200
    await follow(careful, email)
    assert await consent_of(careful) is None


async def test_confirmation_does_not_undo_a_withdrawal(careful: Tracking) -> None:
    await sign_up(careful, ticked=True)
    [email] = await confirmations(careful)
    await careful.api.client.put(f"/v1/contacts/{ANN}", json={"trackingConsent": {"isGiven": False}})
    await follow(careful, email)
    consent = await consent_of(careful)
    assert consent is not None
    assert consent["isGiven"] is False


async def test_stranger_cannot_undo_a_withdrawal(tracking: Tracking) -> None:
    await join(tracking.bench.database, [ANN], consents_to_tracking=False, tracking_consent_at=1)
    proof = await proof_of_work(tracking.api.anonymous, f"/subscribe/{NEWS}")
    await tracking.api.anonymous.post(f"/subscribe/{NEWS}", data={"email": ANN, "tracking": "yes", **proof})
    async with tracking.bench.database.read() as tx:
        [row] = await tx.execute(select(contacts.c.consents_to_tracking))
        assert await tx.execute(select(subscriptions.c.id))
    assert not row.consents_to_tracking


async def test_import_records_wording_and_refusals(tracking: Tracking, tmp_path: Path) -> None:
    await join(tracking.bench.database, ["left@example.com"], consents_to_tracking=False, tracking_consent_at=1)
    await join(tracking.bench.database, ["gave@example.com"], consents_to_tracking=True, tracking_consent_at=1)
    lines = ["email,tracking_consent", f"{ANN},I agree", "yes@example.com,yes", "left@example.com,I agree"]
    text = "\n".join([*lines, "gave@example.com,no", "new@example.com,"])
    file = tmp_path / "people.csv"
    file.write_text(text)
    imports = Imports(tracking.bench.database, tracking.clock)
    started = await imports.begin(1, file, ImportOptions())
    assert [done async for done in imports.run(started, file)][-1].finished_at is not None
    async with tracking.bench.database.read() as tx:
        rows = await tx.execute(select(contacts.c.email, contacts.c.consents_to_tracking))
    found = {row.email: None if row.consents_to_tracking is None else bool(row.consents_to_tracking) for row in rows}
    assert found == {
        ANN: True,
        "yes@example.com": None,
        "left@example.com": False,
        "gave@example.com": False,
        "new@example.com": None,
    }


async def test_export_and_erasure_cover_the_consent(tracking: Tracking) -> None:
    given = {"isGiven": True, "wording": "I agree.", "source": "page"}
    await tracking.api.client.put(f"/v1/contacts/{ANN}", json={"trackingConsent": given})
    exported = (await tracking.api.client.get(f"/v1/contacts/{ANN}/data")).json()
    assert exported["trackingConsent"]["wording"] == "I agree."
    await tracking.api.client.delete(f"/v1/contacts/{ANN}")
    async with tracking.bench.database.read() as tx:
        [row] = await tx.execute(select(contacts))
    assert row.consents_to_tracking is row.tracking_consent_wording is row.tracking_consent_source is None
