"""Keys that are derived from names."""

import pytest

from mailwright.domain.keys import derive_key, unused_key, write_in_ascii


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Monatsbrief für Gäste", "monatsbrief-fuer-gaeste"),
        ("ÄRGER, Straße & Öl", "aerger-strasse-oel"),
        ("Ma\u0308rzbrief", "maerzbrief"),
        ("Início de ação", "inicio-de-acao"),
        ("ŁÓDŹ Øre", "lodz-ore"),
        ("Новости: Щука, Йод, Ёж", "novosti-shchuka-yod-ezh"),
        ("Їжак і Ґанок", "yizhak-i-ganok"),
        ("Ειδήσεις", "eidiseis"),
        ("--x--", "x"),
        ("新聞", "list"),
        ("", "list"),
        ("a" * 49 + " b", "a" * 49),
    ],
)
def test_name_becomes_a_key(name: str, key: str) -> None:
    assert derive_key(name, "list") == key


def test_case_is_kept_outside_of_keys() -> None:
    assert write_in_ascii("Ärger_Fête.Жук") == "Aerger_Fete.Zhuk"


def test_taken_keys_get_a_number() -> None:
    assert [unused_key("news", taken) for taken in ([], ["news"], ["news", "news-2"])] == ["news", "news-2", "news-3"]
