"""Formats of numbers and dates: the whole column decides, and the user is asked if it is ambiguous."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailwright.audience.importing.columns import suggest_target
from mailwright.audience.importing.value_formats import ColumnFormat, convert, judge_columns


def judge(*values: str) -> tuple[str, str | None]:
    columns = judge_columns({0: "Value"}, ((line, [value]) for line, value in enumerate(values, 2)))
    return columns[0].judge() if columns else ("", None)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["70239,12", "5", "1200,5"], "decimal-comma"),
        (["1.234,56", "12.345.678,00"], "decimal-comma"),
        (["1 234,56", "1\u00a0234", "1\u202f234,5", "-3"], "decimal-comma"),
        (["1.234", "0,5"], "decimal-comma"),
        (["1.234.567"], "decimal-comma"),
        (["1,234.56", "1,000"], "decimal-point"),
        (["1'234.56", "2\u2019000.5"], "decimal-point"),
        (["12.5", "1,234"], "decimal-point"),
        (["12.10.1953", "1.2.1980", ""], "dmy"),
        (["31.12.1953", "1.2.1980"], "dmy"),
        (["31/12/1953", "10/12/1953"], "dmy"),
        (["12/31/1953", "10/12/1953"], "mdy"),
        (["12/31/1953", "1953-01-02", "n/a"], "mdy"),
        (["1953/12/31", "1953.1.2"], "ymd"),
        (["1953-12-31", "1953-01-02T10:00"], "ymd"),
        (["12.10.1953 14:30", "13.10.1953"], "dmy"),
        (["12.10.1953", "unknown", "13.10.1953"], "dmy"),
        ([*["31/12/1953"] * 9, "12/31/1953"], "dmy"),
        (["12.5", "3"], ""),
        (["12.5", "1.234"], ""),
        (["100", "007"], ""),
        (["Bern", "12.10.1953", "Zug"], ""),
        (["+49 170 1234567", "030 123"], ""),
        (["10:30", "v1.2.3", "192.168.0.1"], ""),
    ],
)
def test_column_proves_its_format(values: Sequence[str], expected: str) -> None:
    assert judge(*values) == (expected, None)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["10/12/1953", "01/02/1980"], "10/12/1953 can be read with the day or the month first"),
        (["10-12-1953"], "day or the month first"),
        (["31/12/1953", "12/31/1953"], "day or the month first"),
        (["1.234", "5.678"], "1.234 can be read in several ways"),
        (["1,234", "5,678"], "several ways"),
        (["1,5", "2.5"], "several ways"),
        (["12.10.53", "1.2.80"], "two digits"),
    ],
)
def test_ambiguous_column_is_asked_about(values: Sequence[str], problem: str) -> None:
    format_, question = judge(*values)
    assert format_ == ""
    assert question
    assert problem in question


@pytest.mark.parametrize(
    ("text", "format_", "expected"),
    [
        ("70239,12", "decimal-comma", 70239.12),
        ("-1.234,5", "decimal-comma", -1234.5),
        ("1 234", "decimal-comma", 1234),
        ("\u22125", "decimal-comma", -5),
        ("1.23,4", "decimal-comma", None),
        ("1234567890123456", "decimal-comma", None),
        ("1,234.5", "decimal-point", 1234.5),
        ("12.10.1953", "dmy", "1953-10-12"),
        ("10/12/1953", "mdy", "1953-10-12"),
        ("1953/10/12", "dmy", "1953-10-12"),
        ("12.10.1953 14:30", "dmy", "1953-10-12 14:30"),
        ("31.02.1953", "dmy", None),
        ("12.10.1953", "ymd", None),
        ("unknown", "dmy", None),
    ],
)
def test_cell_is_converted_or_left(text: str, format_: str, expected: Any) -> None:
    assert convert(text, format_) == expected


@pytest.mark.parametrize(("text", "format_"), [("12.000,00", "decimal-comma"), ("12,000.0", "decimal-point")])
def test_whole_number_has_no_decimals(text: str, format_: str) -> None:
    assert repr(convert(text, format_)) == "12000"


@given(st.dates(date(1000, 1, 1), date(9999, 12, 31)), st.sampled_from("./-"))
def test_any_date_survives_in_its_order(day: date, separator: str) -> None:
    orders = {"dmy": "%d{0}%m{0}%Y", "mdy": "%m{0}%d{0}%Y", "ymd": "%Y{0}%m{0}%d"}
    for order, pattern in orders.items():
        assert convert(day.strftime(pattern.format(separator)), order) == day.isoformat()


@given(st.decimals(-(10**9), 10**9, places=2))
def test_any_amount_survives_in_both_notations(amount: Any) -> None:
    point = f"{amount:,.2f}"
    comma = point.translate(str.maketrans(",.", ".,"))
    assert convert(point, ColumnFormat.DECIMAL_POINT) == pytest.approx(float(amount))
    assert convert(comma, ColumnFormat.DECIMAL_COMMA) == pytest.approx(float(amount))
    assert judge(point, point)[0] in ("", "decimal-point")
    assert judge(comma, comma)[0] == "decimal-comma"


@pytest.mark.parametrize(
    ("target", "titles"),
    [
        ("timezone", ["Часовой пояс", "Fuso horário", "Zeitzone", "Zona horaria", "Fuseau horaire", "TIME-ZONE"]),
        ("email", ["E-Mail-Adresse", "Эл. почта", "Correo electrónico", "Adresse e-mail", "メールアドレス"]),
        ("first_name", ["Vorname", "Prénom", "Imię"]),
        ("last_name", ["Nachname", "Фамилия", "Sobrenome", "Apellidos"]),
        ("name", ["ФИО", "Nome completo", "Nombre"]),
        ("locale", ["Язык", "Sprache", "Langue", "Idioma"]),
        ("tags", ["Метки", "Schlagwörter", "Etiquetas"]),
    ],
)
def test_known_columns_are_recognised_in_many_languages(target: str, titles: Sequence[str]) -> None:
    assert {suggest_target(title) for title in titles} == {target}
