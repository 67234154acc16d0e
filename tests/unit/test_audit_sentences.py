"""Every action of the audit log has a sentence, in every language."""

import re
from pathlib import Path

import pytest

import mailwright
from mailwright.actions import load_nouns
from mailwright.domain.translation import using
from mailwright.ops.catalogues import LANGUAGES, load_catalogue
from mailwright.outbox.audit_log import AuditEntry
from mailwright.texts.audit_log import SENTENCES, audit_sentence, searched_words

RECORDED = re.compile(r'action="([a-z_]+[._][a-z_.]+)"')


def an_entry(action: str, actor: str = "ada", subject: str = "spring", **detail: object) -> AuditEntry:
    return AuditEntry(1, 1, actor, action, subject, detail, 0)


def test_every_recorded_action_has_a_sentence() -> None:
    files = Path(mailwright.__file__).parent.rglob("*.py")
    recorded = {action for file in files for action in RECORDED.findall(file.read_text())}
    assert len(recorded) >= 50
    assert recorded - set(SENTENCES) == set()


def test_every_declared_action_has_a_sentence() -> None:
    declared = {action.audit for noun in load_nouns() for action in noun.actions if action.audit is not None}
    assert declared - set(SENTENCES) == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_name_the_actor_in_every_language(language: str) -> None:
    with using(load_catalogue(language)):
        for action, template in SENTENCES.items():
            sentence = audit_sentence(an_entry(action, name="Spring {0}"))
            assert sentence.startswith("ada"), action
            assert ("Spring {0}" in sentence) is ("{subject}" in str(template))


def test_sentence_in_the_language_of_the_page() -> None:
    entry = an_entry("campaign.start", name="Spring")
    assert audit_sentence(entry) == "ada started the campaign “Spring”"
    with using(load_catalogue("pt")):
        assert audit_sentence(entry) == "ada iniciou a campanha “Spring”"
    with using(load_catalogue("ru")):
        assert audit_sentence(entry) == "ada запускает кампанию «Spring»"


@pytest.mark.parametrize(
    ("actor", "sentence"),
    [
        ("console", "The command line signed in"),
        ("api:shop", "The API (key shop) signed in"),
        ("system", "Mailwright signed in"),
        ("guard rails", "A guard rail signed in"),
    ],
)
def test_sentence_names_programs(actor: str, sentence: str) -> None:
    assert audit_sentence(an_entry("user_sign_in", actor)) == sentence


def test_unknown_action_is_spelled_out() -> None:
    assert audit_sentence(an_entry("robot.wave_arm")) == "ada: robot wave arm “spring”"


def test_search_finds_the_words_of_a_sentence() -> None:
    started, api = searched_words("Started API")
    assert {"campaign.start", "mailout.send"} <= set(started.actions)
    assert "campaign.pause" not in started.actions
    assert api.actors == ["api", "api:"]
