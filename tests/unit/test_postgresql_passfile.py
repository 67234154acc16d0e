"""Passwords are found in a password file as libpq finds them."""

from pathlib import Path

import pytest

from mailwright.storage.postgresql_passfile import find_password

FILE = r"""
# comment:5432:shop:ada:unused
db.example.com:5433:*:ada:of port 5433
db.example.com:*:shop:ada:with\:colon\\and backslash
/run/postgresql:*:*:grace:of the folder
localhost:*:*:*:local
*:5432:news:*:
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "passwords"
    made.write_text(FILE)
    made.chmod(0o600)
    return made


@pytest.mark.parametrize(
    ("host", "port", "database", "user", "password"),
    [
        ("db.example.com", 5433, "shop", "ada", "of port 5433"),
        ("db.example.com", 5432, "shop", "ada", r"with:colon\and backslash"),
        ("db.example.com", 5432, "shop", "grace", None),
        ("/run/postgresql", 5432, "shop", "grace", "of the folder"),
        ("/run/postgresql", 5432, "shop", "ada", "local"),
        ("localhost", 5432, "shop", "ada", "local"),
        ("other.example.com", 5432, "news", "ada", ""),
        ("comment", 5432, "shop", "ada", None),
    ],
)
def test_first_line_that_fits_has_the_password(
    file: Path, host: str, port: int, database: str, user: str, password: str | None
) -> None:
    assert find_password(file, host, port, database, user) == password


def test_file_that_others_can_read_is_ignored(file: Path) -> None:
    file.chmod(0o640)
    assert find_password(file, "localhost", 5432, "shop", "ada") is None
    assert find_password(file.parent / "missing", "localhost", 5432, "shop", "ada") is None
