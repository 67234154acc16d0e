"""Sign-up forms: what people answer counts once they confirm, and programs and strangers change nothing."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from html import unescape
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from mailwright.app.address_checks import AddressChecks
from mailwright.app.dns_lookup import make_lookup
from mailwright.app.retention import make_retention
from mailwright.audience import erasure, lists, personal_data
from mailwright.audience.double_opt_in import RESEND_INTERVAL
from mailwright.audience.form_protection import CHALLENGE_LIFETIME, STEP_LIFETIME, STEPS_PER_NETWORK
from mailwright.audience.sign_up import PER_HOUR
from mailwright.audience.status import ContactStatusService
from mailwright.domain.clock import DAY, SECOND, ManualClock
from mailwright.domain.retention import RetentionKind, RetentionRule
from mailwright.outbox.retention_rules import set_rule
from mailwright.storage.database import Database
from mailwright.storage.tables import contacts, form_submissions, messages, subscriptions
from tests.api import Api, an_api, proof_of_work
from tests.standins.dns import DnsServer, a_dns_server

pytestmark = pytest.mark.promise("sign-up-forms")

ADA = "ada@example.com"
FORM: dict[str, Any] = {
    "name": "Shop",
    "listKey": "news",
    "title": "Join <us>",
    "fields": [
        {"attribute": "first_name", "label": "First name", "isRequired": True},
        {"attribute": "age", "label": "Age", "type": "number"},
        {"attribute": "birthday", "label": "Birthday", "type": "date"},
        {"attribute": "size", "label": "Size", "type": "choice", "choices": ["S", "M"]},
        {"attribute": "vip", "label": "VIP", "type": "checkbox"},
    ],
    "consents": [
        {"key": "terms", "wording": "I accept  the terms.", "isRequired": True},
        {"key": "partners", "wording": "Share my data with partners."},
    ],
}
ANSWERS = {"field.first_name": "Ada", "consent.terms": "yes"}


@dataclass
class Forms:
    api: Api
    dns: DnsServer
    form_id: str

    async def post(self, email: str = ADA, *, proof: bool = True, json: bool = False, **fields: str) -> Any:
        given = {"email": email, **ANSWERS, **(await self.proof() if proof else {}), **fields}
        headers = {"Accept": "application/json"} if json else {}
        return await self.api.anonymous.post(f"/form/{self.form_id}", data=given, headers=headers)

    async def proof(self) -> dict[str, str]:
        return await proof_of_work(self.api.anonymous, f"/form/{self.form_id}")

    async def rows(self, table: Any) -> list[Any]:
        async with self.api.engine.database.read() as tx:
            return list(await tx.execute(select(table).order_by(table.c.id)))

    async def contact(self, email: str = ADA) -> dict[str, Any]:
        [row] = [each for each in await self.rows(contacts) if each.email == email]
        return dict(orjson.loads(row.attributes))

    async def links(self) -> list[str]:
        """Return the confirmation links that were sent, as paths."""
        payloads = [unescape(orjson.loads(each.payload)["html"]) for each in await self.rows(messages)]
        return [re.findall(r"https?://[^/\"]+(/confirm\?[^\"<\s]+)", text)[0] for text in payloads]


@pytest.fixture
async def forms(database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Forms]:
    monkeypatch.setattr("mailwright.app.dns_lookup.DNS_SECONDS", 60.0)
    monkeypatch.setattr("mailwright.audience.form_protection.DIFFICULTY_BITS", 4)
    await lists.create(database, clock, 1, "news", name="News")
    async with a_dns_server() as dns, an_api(database, clock, dns_servers=dns.address) as api:
        dns.zone["MX", "example.com"] = ["10 mx.example.com"]
        made = await api.client.post("/v1/forms", json=FORM)
        assert made.status_code == 201, made.text
        yield Forms(api, dns, made.json()["formId"])


async def test_answers_count_after_confirmation(forms: Forms) -> None:
    response = await forms.post(**{"field.age": "36,5", "field.size": "M", "field.vip": "yes", "field.other": "x"})
    assert response.status_code == 200, response.text
    assert await forms.contact() == {}
    [link] = await forms.links()
    assert "confirm" in (await forms.api.anonymous.get(link)).text
    [stored] = await forms.rows(form_submissions)
    assert stored.confirmed_at is None
    await forms.api.anonymous.post(link)
    assert await forms.contact() == {"first_name": "Ada", "age": 36.5, "size": "M", "vip": True}
    [stored] = await forms.rows(form_submissions)
    assert (stored.confirmed_at, stored.form_version) == (forms.api.engine.clock.now(), 1)
    assert orjson.loads(stored.consents) == [
        {"key": "terms", "wording": "I accept the terms.", "isGiven": True},
        {"key": "partners", "wording": "Share my data with partners.", "isGiven": False},
    ]
    [subscription] = await forms.rows(subscriptions)
    assert (subscription.is_pending, subscription.list_key) == (False, "news")


async def test_zero_answers_a_required_number(forms: Forms) -> None:
    fields = [{"attribute": "pets", "label": "Pets", "type": "number", "isRequired": True}]
    await forms.api.client.put(f"/v1/forms/{forms.form_id}", json={**FORM, "fields": fields})
    await forms.post(**{"field.pets": ""})
    assert await forms.rows(form_submissions) == []
    await forms.post(**{"field.pets": "0"})
    [stored] = await forms.rows(form_submissions)
    assert orjson.loads(stored.attributes) == {"pets": 0}


async def test_evidence_keeps_the_wording_that_people_saw(forms: Forms) -> None:
    await forms.post()
    changed = {**FORM, "consents": [{"key": "terms", "wording": "New terms.", "isRequired": True}]}
    edited = (await forms.api.client.put(f"/v1/forms/{forms.form_id}", json=changed)).json()
    renamed = (await forms.api.client.put(f"/v1/forms/{forms.form_id}", json={**changed, "name": "B"})).json()
    assert (edited["version"], renamed["version"], renamed["submitted"]) == (2, 2, 1)
    await forms.post("new@example.com", **{"consent.terms": "yes"})
    await forms.api.client.delete(f"/v1/forms/{forms.form_id}")
    first, second = await forms.rows(form_submissions)
    assert orjson.loads(first.consents)[0]["wording"] == "I accept the terms."
    assert (orjson.loads(second.consents)[0]["wording"], second.form_version) == ("New terms.", 2)
    assert (await forms.api.anonymous.get(f"/form/{forms.form_id}")).status_code == 404


async def test_stranger_cannot_change_a_pending_confirmation(forms: Forms, clock: ManualClock) -> None:
    await forms.post()
    await forms.post(**{"field.first_name": "Mallory"})
    clock.advance(RESEND_INTERVAL)
    await forms.post(**{"field.first_name": "Trudy"})
    first, second = await forms.links()
    await forms.api.anonymous.post(first)
    assert (await forms.contact())["first_name"] == "Ada"
    await forms.api.anonymous.post(second)
    await forms.post(**{"field.first_name": "Eve"})
    assert (await forms.contact())["first_name"] == "Ada"
    other = first.replace(first.rpartition("form=")[2], "0" * 32)
    assert (await forms.api.anonymous.post(other)).status_code == 200


async def test_response_does_not_reveal_subscribers(forms: Forms) -> None:
    statuses = ContactStatusService(forms.api.engine.database, forms.api.engine.clock)
    await statuses.subscribe(1, "on@example.com", "news", source="test")
    responses = [await forms.post(email) for email in ("on@example.com", "new@example.com")]
    trapped = await forms.post("robot@example.com", website="spam")
    assert len({(each.status_code, each.text) for each in (*responses, trapped)}) == 1
    assert [each.email for each in await forms.rows(contacts)] == ["on@example.com", "new@example.com"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"field.first_name": " "}, "Fill in this field."),
        ({"field.age": "old"}, "Enter a number, for example 42."),
        ({"field.age": "inf"}, "Enter a number, for example 42."),
        ({"field.age": "1e400"}, "Enter a number, for example 42."),
        ({"field.birthday": "2026-02-30"}, "Enter a date, for example 2026-12-24."),
        ({"field.size": "XXL"}, "Check this value."),
        ({"field.first_name": "x" * 501}, "Check this value."),
        ({"consent.terms": ""}, "Tick this box to subscribe."),
        ({"email": "nobody"}, "Please enter a valid email address."),
        ({"field.first_name": "", "lang": "ru"}, "Заполните это поле."),
        ({"field.first_name": "", "lang": "pt"}, "Preencha este campo."),
    ],
)
async def test_invalid_answer_is_shown_with_the_reason(forms: Forms, fields: dict[str, str], text: str) -> None:
    given = {"email": ADA, **ANSWERS, **(await forms.proof()), **fields}
    response = await forms.api.anonymous.post(f"/form/{forms.form_id}", data={k: v for k, v in given.items() if v})
    assert (response.status_code, text in response.text) == (422, True)
    assert await forms.rows(form_submissions) == []


async def test_without_scripts_a_second_page_asks(forms: Forms, clock: ManualClock) -> None:
    response = await forms.post(proof=False, **{"field.first_name": '"><b>'})
    assert (response.status_code, "One more step" in response.text) == (200, True)
    assert await forms.rows(contacts) == []
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', response.text))
    fields = {name: unescape(value) for name, value in hidden.items()}
    assert "One more step" in (await forms.api.anonymous.post(f"/form/{forms.form_id}", data=fields)).text
    clock.advance(2 * SECOND)
    for expected in ("Check your inbox", "One more step"):  # The button works once.
        again = await forms.api.anonymous.post(f"/form/{forms.form_id}", data=fields)
        assert expected in again.text
    [stored] = await forms.rows(form_submissions)
    assert orjson.loads(stored.attributes)["first_name"] == '"><b>'


async def test_second_page_is_for_its_address_and_few_are_shown(forms: Forms, clock: ManualClock) -> None:
    """A program cannot take the button of one address for others, nor ask for many."""
    page = (await forms.post(proof=False)).text
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page))
    clock.advance(2 * SECOND)
    path = f"/form/{forms.form_id}"
    other = await forms.api.anonymous.post(path, data={**hidden, "email": "b@example.com"})
    assert "One more step" in other.text
    codes = [(await forms.post(f"a{number}@example.com", proof=False)).status_code for number in range(9)]
    assert codes == [200] * (STEPS_PER_NETWORK - 2) + [429] * (9 - STEPS_PER_NETWORK + 2)
    assert await forms.rows(form_submissions) == []
    assert (await forms.post("c@example.com")).status_code == 200  # This does not limit visitors who do the work.
    assert "Check your inbox" in (await forms.api.anonymous.post(path, data=hidden)).text


async def test_proof_is_checked_and_works_once(forms: Forms, clock: ManualClock) -> None:
    proof = await forms.proof()
    wrong = [
        {"challenge": "1.2.3", "solution": "1"},
        {**proof, "solution": "x"},
        {**proof, "challenge": proof["challenge"].replace(".", "é", 1)},
        {"challenge": "9" * 5000, "solution": "9" * 5000},
        {"step": proof["challenge"]},
    ]
    for each in wrong:
        refused = await forms.post(proof=False, json=True, **each)
        assert (refused.status_code, refused.json()["code"]) == (403, "PROOF_OF_WORK_REQUIRED"), each
        assert refused.headers["access-control-allow-origin"] == "*"
    assert (await forms.post(proof=False, json=True, **proof)).json() == {"ok": True, "listKey": "news"}
    assert (await forms.post("b@example.com", proof=False, json=True, **proof)).status_code == 403
    late = await forms.proof()
    clock.advance(max(CHALLENGE_LIFETIME, STEP_LIFETIME) + 1)
    assert (await forms.post(proof=False, json=True, **late)).status_code == 403


async def test_address_must_be_able_to_receive_email(forms: Forms) -> None:
    forms.dns.zone["MX", "null.example"] = ["0 "]
    forms.dns.zone["A", "plain.example"] = ["192.0.2.1"]
    forms.dns.zone["MX", "mailinator.com"] = ["10 mx.mailinator.com"]
    refused = ("x@null.example", "x@missing.example", "x@mailinator.com", "x@sub.mailinator.com")
    for email in refused:
        response = await forms.post(email)
        assert (response.status_code, "cannot receive our emails" in response.text) == (422, True), email
    assert (await forms.post("x@plain.example")).status_code == 200
    own = AddressChecks(make_lookup((forms.dns.address,)), ["throwaway.example"])
    assert own.is_disposable("a.throwaway.example")


async def test_sign_ups_per_network_are_limited(forms: Forms) -> None:
    codes = [(await forms.post(f"a{number}@example.com")).status_code for number in range(PER_HOUR + 1)]
    assert codes == [200] * PER_HOUR + [429]


async def test_page_and_snippet_are_escaped_and_framed(forms: Forms) -> None:
    page = await forms.api.anonymous.get(f"/form/{forms.form_id}?lang=pt")
    assert "Join &lt;us&gt;" in page.text
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors *" in policy
    assert "script-src 'self'" in policy
    shown = (await forms.api.client.get(f"/v1/forms/{forms.form_id}")).json()
    assert shown["url"].endswith(f"/form/{forms.form_id}")
    assert f'action="{shown["url"]}"' in shown["snippet"]
    script = await forms.api.anonymous.get("/form/~script.js")
    assert script.headers["content-type"].startswith("text/javascript")


async def test_source_is_the_embedding_site(forms: Forms) -> None:
    given = {"email": ADA, **ANSWERS, **(await forms.proof())}
    path = f"/form/{forms.form_id}"
    await forms.api.anonymous.post(path, data=given, headers={"Origin": "https://shop.example"})
    given = {"email": "b@example.com", **ANSWERS, **(await forms.proof())}
    await forms.api.anonymous.post(path, data=given, headers={"Origin": "null"})
    first, second = await forms.rows(form_submissions)
    assert first.source == "https://shop.example"
    assert second.source.endswith(path)


async def test_form_of_a_deleted_list_is_not_shown(forms: Forms) -> None:
    await forms.api.engine.list_removal.delete(1, "news", actor="console")
    assert (await forms.api.anonymous.get(f"/form/{forms.form_id}")).status_code == 404
    assert (await forms.post(proof=False)).status_code == 404


@pytest.mark.parametrize(
    "change",
    [
        {"listKey": "missing"},
        {"fields": [{"attribute": "two words", "label": "x"}]},
        {"fields": [{"attribute": "a", "label": "x", "type": "choice"}]},
        {"fields": [{"attribute": "a", "label": "x"}, {"attribute": "a", "label": "y"}]},
        {"consents": [{"key": "a", "wording": " "}]},
        {"fields": [{"attribute": f"a{number}", "label": "x"} for number in range(21)]},
    ],
)
async def test_invalid_form_is_refused(forms: Forms, change: dict[str, Any]) -> None:
    assert (await forms.api.client.post("/v1/forms", json={**FORM, **change})).status_code == 422


async def test_submissions_are_personal_data(forms: Forms) -> None:
    await forms.post()
    engine = forms.api.engine
    [exported] = (await personal_data.export_personal_data(engine.database, 1, ADA))["signUpForms"]
    assert (exported["formId"], exported["attributes"]) == (forms.form_id, {"first_name": "Ada", "vip": False})
    await erasure.erase(engine.database, engine.clock, 1, ADA, actor="console")
    assert await forms.rows(form_submissions) == []


async def test_retention_keeps_the_proof_of_subscribers(forms: Forms, clock: ManualClock) -> None:
    engine = forms.api.engine
    left = "left@example.com"
    for email in (ADA, left, "never@example.com"):
        await forms.post(email)
    for link in (await forms.links())[:2]:
        await forms.api.anonymous.post(link)
    await ContactStatusService(engine.database, clock).unsubscribe(1, left, "news", source="test")
    clock.advance(40 * DAY)
    await forms.post("new@example.com")
    await set_rule(engine.database, clock, 1, RetentionKind.FORM_SUBMISSIONS, days=30, exports=False, actor="console")
    rule = RetentionRule(1, RetentionKind.FORM_SUBMISSIONS, 30, exports=False)
    assert (await make_retention(engine.settings, engine.database, clock).run_batch(rule, 100)).rows == 2
    emails = {each.id: each.email for each in await forms.rows(contacts)}
    assert [emails[each.contact_key] for each in await forms.rows(form_submissions)] == [ADA, "new@example.com"]
