"""Pages of retention, health and settings, and the overview while sending is on hold, on both engines."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import select, update

from mailwright.access.roles import Role
from mailwright.app.setup import SetupStep, StepState, dismiss_checklist, load_progress, record_step
from mailwright.app.stored_settings import change_settings, load_effective
from mailwright.app.verify import verify
from mailwright.app.wiring import Engine, build_engine
from mailwright.domain.clock import DAY, ManualClock
from mailwright.domain.errors import ConfigurationInvalid, InvalidInput
from mailwright.domain.message import Source
from mailwright.domain.retention import RetentionKind
from mailwright.domain.states import Status
from mailwright.ops.settings import load
from mailwright.outbox.retention_rules import list_rules
from mailwright.outbox.sending_hold import (
    DueMessages,
    HoldReason,
    SendingHold,
    find_hold,
    hold_sending,
    release_hold,
)
from mailwright.outbox.workers import WorkerPresence, WorkerRegistry
from mailwright.storage.tables import audit_log, deliveries, messages
from mailwright.web.app import create_app
from mailwright.web.dashboard.forms import Fields
from mailwright.web.dashboard.stored_forms import Changes, provider_changes, sender_changes, try_changes
from tests.api import an_engine
from tests.builders import DEFAULT_TENANT, SECRET_KEY, Bench, a_message, settings_for
from tests.pages import HOME, PASSWORD, Visit, a_visit
from tests.standins.dns import a_dns_server
from tests.standins.provider import ScriptedProvider

RETENTION = "/settings/retention"


@pytest.fixture
def web_engine(bench: Bench, clock: ManualClock) -> Engine:
    return an_engine(bench.database, clock, base_url=HOME)


@pytest.fixture
async def app(web_engine: Engine) -> AsyncIterator[FastAPI]:
    await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
    await web_engine.users.create("eve", PASSWORD, Role.ADMIN, tenant_id=DEFAULT_TENANT, actor="test")
    app = create_app(web_engine)
    yield app
    await app.state.finish()


@pytest.fixture
async def ada(app: FastAPI) -> AsyncIterator[Visit]:
    async with a_visit(app) as visit:
        yield visit


async def test_retention_is_previewed_before_it_is_switched_on(ada: Visit, bench: Bench) -> None:
    await bench.accept(a_message(), a_message())
    await bench.drain(ScriptedProvider())
    long_ago = bench.clock.now() - 40 * DAY
    async with bench.database.write() as tx:
        await tx.execute(update(messages).values(created_at=long_ago))
        await tx.execute(update(deliveries).values(attempted_at=long_ago))
    await ada.open(RETENTION)
    assert "Nothing is deleted" in ada.text
    await ada.press("Show what would be deleted", kind="bodies", days="30")
    assert "2 rows" in ada.text
    assert await list_rules(bench.database) == []
    await ada.press("Switch on")
    [rule] = await list_rules(bench.database)
    assert (rule.kind, rule.days) == (RetentionKind.BODIES, 30)
    await ada.press("Switch off")
    assert await list_rules(bench.database) == []


async def test_short_period_is_explained_at_its_field(ada: Visit, bench: Bench) -> None:
    await ada.open(RETENTION)
    await ada.press("Show what would be deleted", 422, kind="messages", days="5")
    assert "The period of messages is 30 to" in ada.text
    assert await list_rules(bench.database) == []


async def test_overview_needs_attention_while_sending_is_held(app: FastAPI, ada: Visit, bench: Bench) -> None:
    async with a_visit(app, "eve") as eve:
        await eve.open("/")
        assert "Nothing needs your attention" in eve.text
        await hold_sending(bench.database, SendingHold(HoldReason.RESTORED, bench.clock.now(), "Restored."))
        await eve.open("/")
        assert "Nothing needs your attention" not in eve.text
    await ada.open("/settings/health")
    assert "<code>mailwright quarantine list</code>" in ada.text


@pytest.mark.promise("restore-held")
@pytest.mark.parametrize(
    ("button", "status"), [("Send all", Status.RETRY_SCHEDULED), ("Drop all", Status.CLOSED_UNKNOWN)]
)
async def test_all_quarantined_emails_are_decided_at_once(
    ada: Visit, app: FastAPI, bench: Bench, button: str, status: Status
) -> None:
    await bench.accept(a_message(), a_message())
    await hold_sending(bench.database, SendingHold(HoldReason.RESTORED, bench.clock.now(), "Restored."))
    await ada.open("/")
    assert "/settings/health#quarantine" in ada.text
    await ada.open("/settings/health")
    assert "sent before the restore: 2</h2>" in ada.text
    form = next(form for form in ada.forms() if button in dict(form.buttons))
    await ada.press(button)
    assert await bench.statuses() == {status: 2}
    assert await find_hold(bench.database) is None
    async with bench.database.read() as tx:
        entries = {row.action: row.actor for row in await tx.execute(select(audit_log.c.action, audit_log.c.actor))}
    assert entries["quarantine.resolve"] == entries["sending.release"] == "ada"
    repeated = await ada.client.post(str(form.action), data=form.filled({}), follow_redirects=True)
    assert "nothing to do" in repeated.text
    async with a_visit(app, "eve") as eve:
        await eve.open("/")
        [own, *_] = [dict(form.fields) for form in eve.forms() if form.method == "post"]
        assert (await eve.client.post(str(form.action), data=own)).status_code == 403


async def test_hold_without_waiting_emails_has_one_button(ada: Visit, bench: Bench) -> None:
    await hold_sending(bench.database, SendingHold(HoldReason.RESTORED, bench.clock.now(), "Restored."))
    await ada.open("/settings/health")
    assert "Send all" not in ada.text
    await ada.press("Resume sending")
    assert await find_hold(bench.database) is None


async def test_quarantined_emails_of_one_source_are_dropped(ada: Visit, bench: Bench) -> None:
    await bench.accept(a_message(), a_message(source=Source.NOTIFICATION))
    await hold_sending(bench.database, SendingHold(HoldReason.RESTORED, bench.clock.now(), "Restored."))
    await release_hold(bench.database, bench.clock, actor="ada", due=DueMessages.IN_DOUBT)
    await ada.open("/settings/health")
    await ada.press("Drop", nth=1)
    assert await bench.statuses() == {Status.IN_DOUBT: 1, Status.CLOSED_UNKNOWN: 1}


async def test_overview_lists_warnings_about_the_installation(ada: Visit) -> None:
    await ada.open("/")
    assert "Backup: No backup was made" in ada.text
    assert "Workers: None is running" in ada.text
    assert "Nothing needs your attention" not in ada.text


async def test_health_is_only_for_users_of_the_installation(app: FastAPI) -> None:
    async with a_visit(app, "eve") as eve:
        await eve.open("/settings/health", 403)
        assert "Only administrators of the installation" in eve.text


# Settings of the installation.


@pytest.mark.parametrize("path", ["/settings/domain", "/settings/domain/checks", "/settings/sender"])
async def test_tenant_administrators_see_nothing_of_the_installation(app: FastAPI, bench: Bench, path: str) -> None:
    async with a_visit(app, "eve") as eve:
        await eve.open(path, 403)
    assert not (await load_progress(bench.database)).steps


@pytest.mark.parametrize("path", ["/settings/domain", "/set-up/domain"])
async def test_existing_dkim_key_is_never_replaced(ada: Visit, web_engine: Engine, path: str) -> None:
    await ada.open(path)
    form = next(form for form in ada.forms() if form.action == f"{path}/key")
    await ada.press("Create DKIM key")
    created = (await load_effective(web_engine.settings, web_engine.database)).settings.dkim_key
    answer = await ada.client.post(f"{path}/key", data=form.filled({}), follow_redirects=True)
    assert "There is a DKIM key already" in answer.text
    assert (await load_effective(web_engine.settings, web_engine.database)).settings.dkim_key == created


@pytest.mark.parametrize("unwritable", ["\n", "\r", "\0", "\x1b", "\u2028"])
async def test_control_character_in_sender_name_is_refused(web_engine: Engine, unwritable: str) -> None:
    name = f"Ann{unwritable}Bell"
    with pytest.raises(InvalidInput) as refused:
        sender_changes(Fields(sender_name=name, sender_address="ann@example.com"))
    assert refused.value.field == "sender_name"
    with pytest.raises(ConfigurationInvalid, match="MAILWRIGHT_FROM: remove a"):
        verify(web_engine.settings.model_copy(update={"sender": f"{name} <ann@example.com>"}))


@pytest.mark.parametrize(
    ("path", "button", "fixed"),
    [
        (
            "/settings/sender",
            "Save sender",
            {
                "sender": "Ann <ann@example.com>",
                "postal_address": "1 Main Street",
                "base_url": HOME,
                "timezone": "UTC",
                "language": "en",
                "reply_address": "replies@example.com",
                "reply_forward_to": "office@example.com",
                "bounce_address": "bounces@example.com",
            },
        ),
        ("/settings/providers", "Save provider", {"provider": "smtp", "smtp_url": "smtp://127.0.0.1:2525"}),
        (
            "/settings/limits",
            "Save defaults",
            {
                "rate_per_second": 5,
                "rate_per_hour": 50,
                "daily_limit": 500,
                "interval_ms": 1,
                "working_hours": "09:00-18:00",
                "frequency_cap": "3 per 7 days",
                "warmup_since": "2027-01-15",
                "warmup_start": 10,
            },
        ),
    ],
)
async def test_form_without_changeable_settings_has_no_button(
    bench: Bench, clock: ManualClock, path: str, button: str, fixed: dict[str, Any]
) -> None:
    rest = dict(list(fixed.items())[:-1])
    for given, has_button in ((fixed, False), (rest, True)):
        web_engine = an_engine(bench.database, clock, **{"base_url": HOME, **given})
        if not has_button:
            await web_engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        app = create_app(web_engine)
        async with a_visit(app) as visit:
            await visit.open(path)
            assert (button in visit.text, "All of these values are set" in visit.text) == (has_button, not has_button)
        await app.state.finish()


async def test_saved_is_answered_only_if_something_changed(ada: Visit, web_engine: Engine) -> None:
    """The public URL is fixed, so a form that sends another one changes nothing."""
    await ada.open("/settings/sender")
    await ada.press("Save sender", postal_address="1 Main Street")
    assert "Saved." in ada.text
    await ada.press("Save sender")
    assert "Nothing was changed." in ada.text
    [form] = [form for form in ada.forms() if form.action == "/settings/sender"]
    stale = form.filled({}) | {"base_url": "https://other.example.com"}
    answer = await ada.client.post(form.action, data=stale)
    assert answer.status_code == 422
    assert "MAILWRIGHT_BASE_URL is set" in answer.text


def test_settings_fixed_outside_the_form_stay_unchanged() -> None:
    """A browser does not send fixed fields. The others of the form are saved, and no stored secret is deleted."""
    fixed = {"aws_access_key_id": "AKIA0", "sendgrid_url": "http://127.0.0.1:1", "smtp_url": "smtp://127.0.0.1:25"}
    settings = settings_for("sqlite:///unused.db", **fixed)
    ses = provider_changes(Fields(provider="ses", aws_region="eu-west-1"), settings, fixed)
    assert ses == {"provider": "ses", "aws_region": "eu-west-1", "ses_configuration_set": None}
    sendgrid = provider_changes(Fields(provider="sendgrid", sendgrid_api_key="SG.key"), settings, fixed)
    assert sendgrid == {"provider": "sendgrid", "sendgrid_api_key": "SG.key"}
    assert provider_changes(Fields(provider="smtp"), settings, fixed) == {"provider": "smtp"}


def test_oauth_secret_is_kept_for_its_own_servers_only() -> None:
    settings = load(
        database_url="sqlite:///unused.db",
        smtp_url="smtp://ada@mail.example.com:587?tls=starttls&auth=xoauth2",
        oauth_token_url="https://login.example.com/token",
        oauth_client_id="client",
        oauth_client_secret="kept",
    )
    server = {"smtp_host": "mail.example.com", "smtp_port": "587", "smtp_tls": "starttls", "smtp_user": "ada"}
    oauth = {"oauth_token_url": "https://login.example.com/token", "oauth_client_id": "other", "smtp_auth": "xoauth2"}
    kept = provider_changes(Fields(provider="smtp", **server, **oauth), settings)
    assert (kept["oauth_client_id"], "oauth_client_secret" in kept) == ("other", False)
    assert kept["smtp_url"] == "smtp://ada@mail.example.com:587?tls=starttls&auth=xoauth2"
    for changed in ({"oauth_token_url": "https://evil.example.com/token"}, {"smtp_host": "evil.example.com"}):
        with pytest.raises(InvalidInput, match="client secret again"):
            provider_changes(Fields(provider="smtp", **{**server, **oauth, **changed}), settings)
    moved = {**server, **oauth, "smtp_host": "new.example.com", "oauth_client_secret": "entered"}
    assert provider_changes(Fields(provider="smtp", **moved), settings)["oauth_client_secret"] == "entered"


async def test_checklist_has_steps_for_key_and_colleagues(ada: Visit, bench: Bench) -> None:
    await ada.open("/")
    assert '<a href="/set-up/key">Create an API key</a>' in ada.text
    assert "Invite colleagues<span" in ada.text  # There are several users.
    await record_step(bench.database, SetupStep.KEY, StepState.SKIPPED)
    await ada.open("/")
    assert "Create an API key" not in ada.text


async def test_dns_check_leads_to_where_the_sender_is_set(bench: Bench, clock: ManualClock, ada: Visit) -> None:
    url = bench.database.url.render_as_string(hide_password=False)
    given = {"database_url": url, "base_url": HOME, "secret_key": SECRET_KEY}
    changed = '<a href="/set-up/sender">Use an address of your domain</a>'
    fixed = "The sender is set on the command line: use an address of your domain there"
    for sender, advice in (({}, changed), ({"sender": "Ann <ann@b.test>"}, fixed)):
        app = create_app(build_engine(load(**given, **sender), clock, bench.database))
        async with a_visit(app) as visit:
            await visit.open("/settings/domain/checks?setup=1")
            assert advice in visit.text
            assert "MAILWRIGHT_FROM" not in visit.text
        await app.state.finish()


async def test_steps_recorded_at_the_same_time_all_count(bench: Bench) -> None:
    recorded = [record_step(bench.database, step, StepState.DONE) for step in SetupStep]
    await asyncio.gather(*recorded, dismiss_checklist(bench.database))
    progress = await load_progress(bench.database)
    assert (set(progress.steps), progress.is_dismissed) == (set(SetupStep), True)


async def test_connection_test_uses_values_of_the_form(bench: Bench, clock: ManualClock) -> None:
    web_engine = an_engine(bench.database, clock)
    stored: Changes = {"aws_region": "eu-west-1", "ses_configuration_set": "a set"}
    await change_settings(web_engine.settings, bench.database, clock, stored, actor="test")
    [(found, _)] = await try_changes(web_engine, {"provider": "ses", "aws_region": None})
    assert (found.is_ok, found.summary.partition(":")[0]) == (False, "AWS_REGION")


SERVER = {"host": "smtp.example.com", "port": "587", "tls": "starttls", "user": "ann"}


@pytest.mark.parametrize("changed", [{"host": "other.example.com"}, {"port": "25"}, {"tls": "none"}, {"user": "bob"}])
def test_stored_password_goes_only_to_the_same_server(changed: dict[str, str]) -> None:
    settings = settings_for("sqlite:///unused.db", smtp_url="smtp://ann:secret@smtp.example.com:587?tls=starttls")

    def save(server: dict[str, str]) -> Changes:
        return provider_changes(Fields(provider="smtp", **{f"smtp_{key}": server[key] for key in server}), settings)

    assert "ann:secret@smtp.example.com:587" in str(save(SERVER)["smtp_url"])
    with pytest.raises(InvalidInput) as refused:
        save(SERVER | changed)
    assert refused.value.field == "smtp_password"


async def test_set_up_names_the_brand_after_the_sender(bench: Bench, clock: ManualClock, ada: Visit) -> None:
    url = bench.database.url.render_as_string(hide_password=False)
    engine = build_engine(load(database_url=url, base_url=HOME, secret_key=SECRET_KEY), clock, bench.database)
    app = create_app(engine)
    async with a_visit(app) as visit:
        for name in ("Corner Bakery", "Another name"):
            await visit.open("/set-up/sender")
            await visit.press("Save and continue", sender_name=name, sender_address="news@bakery.example.com")
            # The first name stays, because the brand kit has its own page.
            assert (await engine.brands.load(DEFAULT_TENANT)).name == "Corner Bakery"
    await app.state.finish()


async def test_set_up_with_the_local_mailbox_is_complete(ada: Visit, bench: Bench) -> None:
    await ada.open("/set-up/sender")
    assert "data-browser-zone" in ada.text
    await ada.press("Save and continue", timezone="Europe/Lisbon")
    assert "Not ready yet" in (await ada.open("/set-up/done")).text
    await WorkerRegistry(bench.database, bench.clock, "w1").report(WorkerPresence("mailbox"))
    await ada.open("/set-up/done")
    assert "Ready to try out" in ada.text
    assert "Continue later" not in ada.text
    await ada.open("/set-up/test")
    await ada.press("Send test email", to="ada@example.com")
    message = str(ada.answer.request.url).partition("message=")[2]
    await bench.drain(ScriptedProvider())
    await ada.open(f"/set-up/test/status?message={message}")
    assert (await load_progress(bench.database)).steps[SetupStep.TEST] is StepState.DONE
    await ada.open("/set-up/sender")
    assert 'value="Europe/Lisbon"' in ada.text
    assert "data-browser-zone" not in ada.text

    # The test email must be sent again after the provider changed.
    await ada.open("/set-up/provider")
    await ada.press("Save and continue", provider="smtp", smtp_host="smtp.example.com")
    assert SetupStep.TEST not in (await load_progress(bench.database)).steps


async def test_brand_begins_with_the_name_of_the_sender(ada: Visit) -> None:
    await ada.open("/settings/brand")
    assert [dict(form.fields)["name"] for form in ada.forms() if "primary" in form.named] == ["Shop"]
    assert "Not in use until you save the brand kit." in ada.text


@pytest.mark.promise("sender-domains")
async def test_sender_domain_is_added_checked_rotated_and_deleted(bench: Bench, clock: ManualClock) -> None:
    async with a_dns_server() as dns:
        engine = an_engine(bench.database, clock, base_url=HOME, dns_servers=dns.address)
        await engine.users.create("ada", PASSWORD, Role.ADMIN, actor="test")
        app, service = create_app(engine), engine.sender_domains
        async with a_visit(app) as ada:
            await ada.open("/settings/domains")
            await ada.press("Add domain", 422, name="acme", sender="")
            assert "needs a dot" in ada.text
            await ada.press("Add domain", name="Acme.example", sender="Acme <news@acme.example>")
            found = await service.find(DEFAULT_TENANT, "acme.example")
            assert all(key.record in ada.text for key in found.keys)
            await ada.press("Check DNS records")
            assert "does not exist" in ada.text
            dns.publish([each.record for each in await service.records(found)])
            await ada.press("Check DNS records")
            assert "acme.example is verified." in ada.text
            await ada.press("Rotate keys")
            assert (await service.find(DEFAULT_TENANT, "acme.example")).is_rotating
            await ada.press("Rotate at once")
            assert not (await service.find(DEFAULT_TENANT, "acme.example")).is_rotating
            await ada.press("Delete domain")
            assert await service.list_all(DEFAULT_TENANT) == []
            assert "default sends nothing" in ada.text
            await ada.press("Lift restriction")
            assert "default sends nothing" not in ada.text
        await app.state.finish()
