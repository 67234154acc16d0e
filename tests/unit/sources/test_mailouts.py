"""Mailouts without a database: addresses, the footer, literal text and settings."""

import pytest
import structlog

from mailwright.app.mailouts import mailout_setup, pause_after
from mailwright.content.template import Template
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.unsubscribe_tokens import UnsubscribeTokens, unsubscribe_link
from mailwright.ops.settings import load
from mailwright.sources.mailouts.addresses import deduplicate, name_in, parse_test_emails
from mailwright.sources.mailouts.footer import footers
from mailwright.sources.mailouts.literals import literal_html, literal_text
from mailwright.sources.mailouts.refusals import MailoutRefused
from mailwright.sources.mailouts.setup import FooterDetails
from mailwright.sources.mailouts.verify import verify_mailouts
from tests.mailouts import SETTINGS


def test_test_addresses_are_separated_by_commas_semicolons_or_spaces() -> None:
    text = "ada@example.com, bob@example.com;carl@example.com dora@example.com\n;,eve@example.com"
    assert parse_test_emails(text) == [f"{name}@example.com" for name in ("ada", "bob", "carl", "dora", "eve")]


def test_spellings_of_one_test_address_are_one() -> None:
    assert parse_test_emails("Ada@Example.com ada@example.com ADA@EXAMPLE.COM") == ["ada@example.com"]


def test_invalid_address_is_skipped_and_logged() -> None:
    with structlog.testing.capture_logs() as lines:
        assert parse_test_emails("nonsense, a@, @b, ada@example.com, x y@z") == ["ada@example.com"]
    assert [(line["event"], line["log_level"]) for line in lines] == [("mailout_address_invalid", "warning")] * 5
    assert parse_test_emails(" ,; ") == []


def test_first_name_among_spellings_counts() -> None:
    people = [("b@example.com", None), ("A@example.com", None), ("a@example.com", "Ann"), ("a@Example.com", "Other")]
    assert dict(deduplicate(people)) == {"a@example.com": "Ann", "b@example.com": None}
    assert list(deduplicate(people)) == ["a@example.com", "b@example.com"]


def test_footer_has_sender_and_unsubscribe_link_in_both_parts() -> None:
    html, text = footers(FooterDetails("Ash & Oak", "1 Example Street"))
    tokens = UnsubscribeTokens("s" * 32)
    link = unsubscribe_link("https://news.example.com/unsubscribe", tokens.make("ada@example.com"))
    message = Template(subject="s", html=html, text=text).render({"unsubscribe_url": link})
    assert message.html is not None
    assert message.text is not None
    assert message.html.startswith("<hr>")
    assert "Ash &amp; Oak — 1 Example Street" in message.html
    assert message.text == f"\n--\nAsh & Oak — 1 Example Street\nUnsubscribe: {link}"
    assert tokens.parse(link.rpartition("token=")[2]).email == "ada@example.com"
    assert tokens.make("ada@example.com") == tokens.make("ada@example.com")


def test_missing_footer_settings_are_named() -> None:
    setup = mailout_setup(load(**{**SETTINGS, "org_name": None, "unsubscribe_secret": None}), 1)
    with pytest.raises(MailoutRefused, match="ORG_NAME, UNSUBSCRIBE_SECRET") as refused:
        footers(setup.footer)
    assert refused.value.code == "footer_env_missing"


@pytest.mark.parametrize(
    "words",
    ["{{ other }}", "{{ name|upper }}", "{% raw %}{% endraw %}", "{{{", "{# a #}", "{", "}} {{", 'a {{ "{" }} b'],
)
def test_text_with_braces_is_rendered_unchanged(words: str) -> None:
    message = Template(
        subject=literal_text(words), html=f"<p>{literal_html(words)}</p>", text=literal_text(words)
    ).render({})
    assert (message.subject, message.text) == (words, words)
    assert message.html is not None
    assert message.html.replace("&#123;", "{") == f"<p>{words}</p>"


def test_placeholders_are_filled_in_any_case() -> None:
    words = "{{name}} {{ NAME }} {{Email}} {{from_name}} {{nam}}"
    values = {"name": "A & B", "email": "ada@example.com", "from_name": ""}
    message = Template(subject=literal_text(words), html=literal_html(words), text=literal_text(words)).render(values)
    assert message.text == "A & B A & B ada@example.com  {{nam}}"
    assert message.html == "A &amp; B A &amp; B ada@example.com  &#123;{nam}}"


@pytest.mark.parametrize(
    ("email", "name"), [("ada.lovelace@example.com", "ada lovelace"), ("a_b-c@x.org", "a b c"), ("bob@x.org", "bob")]
)
def test_name_is_taken_from_the_address(email: str, name: str) -> None:
    assert name_in(email) == name


STATUSES = {"ready": "Send real", "test": "Send", "send": "Done", "failed": "Done", "reset": "Reset"}


def test_separate_triggers_are_accepted() -> None:
    verify_mailouts(load(notion_statuses={**STATUSES, "in_progress": "In progress", "not_started": "Not started"}))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"test": "Send real"}, "`ready` and `test` are both"),
        ({"send": "send"}, "`test` and `send` are both"),
        ({"not_started": "Reset"}, "`reset` and `not_started` are both"),
        ({}, "`reset` needs `not_started`"),
    ],
)
def test_ambiguous_triggers_are_refused(changes: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=named):
        verify_mailouts(load(notion_statuses={**STATUSES, **changes}))


def test_url_of_another_supabase_project_is_refused() -> None:
    there = {"supabase_url": "https://abc.supabase.co", "supabase_service_role_key": "sb_secret_x"}
    verify_mailouts(load(**there, supabase_project_ref="abc"))
    with pytest.raises(ConfigurationInvalid, match="SUPABASE_PROJECT_REF: SUPABASE_URL belongs to another project"):
        verify_mailouts(load(**there, supabase_project_ref="xyz"))


def test_default_rate_batch_size_and_interval() -> None:
    setup = mailout_setup(load(), 1)
    assert (setup.rate_per_second, setup.interval_ms, setup.batch_size) == (5, 200, 50)
    assert mailout_setup(load(send_rate_per_sec=3), 1).interval_ms == 334


def test_settings_are_read_from_their_documented_names(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {
        "UNSUBSCRIBE_BASE_URL": "https://news.example.com/unsubscribe",
        "UNSUBSCRIBE_SECRET": "s" * 32,
        "ORG_NAME": "Example Org",
        "ORG_ADDRESS": "1 Example Street",
        "TEST_EMAILS": "ada@example.com",
        "SEND_RATE_PER_SEC": "2",
        "BATCH_SIZE": "7",
        "FROM_EMAIL": "news@example.com",
        "FROM_NAME": "Example News",
        "NOTION_TOKEN": "secret",
        "NOTION_DB_MAILOUTS": "1" * 32,
        "NOTION_DB_ERRORS": "2" * 32,
        "SUPABASE_URL": "https://abc.supabase.co",
        "SUPABASE_SERVICE_ROLE_KEY": "sb_secret_x",
    }
    for name, value in usual.items():
        monkeypatch.setenv(name, value)
    settings = load()
    verify_mailouts(settings)
    setup = mailout_setup(settings, 1)
    assert setup.footer == FooterDetails("Example Org", "1 Example Street")
    assert (setup.from_email, setup.from_name, setup.test_emails) == (
        "news@example.com",
        "Example News",
        "ada@example.com",
    )
    assert (setup.interval_ms, setup.batch_size) == (500, 7)
    assert (setup.mailouts_database, setup.errors_database) == ("1" * 32, "2" * 32)
    assert (settings.unsubscribe_url, settings.supabase_url) == (usual["UNSUBSCRIBE_BASE_URL"], usual["SUPABASE_URL"])
    secrets = (settings.unsubscribe_secret, settings.notion_token, settings.supabase_service_role_key)
    named = ("UNSUBSCRIBE_SECRET", "NOTION_TOKEN", "SUPABASE_SERVICE_ROLE_KEY")
    assert [secret and secret.get_secret_value() for secret in secrets] == [usual[name] for name in named]


def test_alternative_setting_names_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {
        "NOTION_API_TOKEN": "secret",
        "NOTION_DB_MAILOUTS_ID": "1" * 32,
        "NOTION_DB_ERRORS_ID": "2" * 32,
        "SES_FROM_EMAIL": "news@example.com",
        "RATE_LIMIT_PER_SEC": "7",
        "REPLY_TO_EMAIL": "answers@example.com",
    }
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    settings = load()
    assert settings.notion_token is not None
    setup = mailout_setup(settings, 1)
    found = (setup.mailouts_database, setup.errors_database, setup.from_email, setup.rate_per_second, setup.reply_to)
    assert found == ("1" * 32, "2" * 32, "news@example.com", 7, "answers@example.com")


def test_all_setting_problems_are_reported_without_secrets() -> None:
    settings = load(
        from_email="nobody",
        notion_db_mailouts="nothing",
        notion_statuses={"sned": "Sent"},
        supabase_url="https://abc.supabase.co",
        supabase_service_role_key="sb_publishable_visible",
    )
    with pytest.raises(ConfigurationInvalid) as invalid:
        verify_mailouts(settings)
    names = [problem.partition(":")[0] for problem in invalid.value.problems]
    assert names == ["FROM_EMAIL", "NOTION_DB_MAILOUTS", "NOTION_STATUSES", "SUPABASE_SERVICE_ROLE_KEY"]
    assert "sb_publishable_visible" not in str(invalid.value)


def test_slow_check_delays_the_next_one_by_seconds() -> None:
    assert [pause_after(seconds) for seconds in (0.001, 0.125, 60)] == [1, 2.5, 5]
