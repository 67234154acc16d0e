"""Addresses of PostgreSQL databases are read as PostgreSQL's own library reads them."""

from pathlib import Path

import pytest
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.storage.database import parse_url
from mailwright.storage.postgresql_url import parse_postgresql, servers_of

ADDRESSES = [
    "postgresql://ada:p%40w%2Fd@db.example.com:6543/shop?sslmode=require",
    "postgres://ada@db.example.com/shop",
    "postgresql://db.example.com",
    "postgresql://db.example.com:/shop",
    "postgresql://one.example.com:5433,two.example.com:5434/shop?target_session_attrs=read-write",
    "postgresql://one.example.com,two.example.com/shop",
    "postgresql://one.example.com,two.example.com:5434/shop",
    "postgresql://[::1]:5433/shop",
    "postgresql://[::1],[2001:db8::2]:5433/shop",
    "postgresql://ada@/shop?host=/run/postgresql",
    "postgresql://%2Frun%2Fpostgresql/shop",
    "postgresql:///shop?host=/run/one,/run/two&port=5433,5434",
    "postgresql://ada@db.example.com/shop?host=other.example.com&port=5433",
    "postgresql://ada:first@db.example.com/shop?user=grace&password=second&dbname=other",
    "postgresql://db.example.com/shop?application_name=a+b%20c&connect_timeout=3",
    "postgresql://db.example.com/shop?options=-c%20search_path%3Dmail",
    "postgresql://db.example.com/shop?ssl=true",
    "host=db.example.com port=5433 dbname=shop user=ada password='it''s'",
    r"host=one.example.com,two.example.com port=5433,5434 dbname='my shop' password='a\'b\\c'",
    "host = /run/postgresql dbname = shop",
    "dbname=shop user=ada password=",
    "postgresql://db.example.com/%D0%BF%D0%BE%D1%87%D1%82%D0%B0",
    "postgresql://ada@db.example.com/shop?channel_binding=require&sslmode=require",
]


def read(address: str) -> dict[str, object]:
    """Read an address with Mailwright, and name its parts as libpq does."""
    url = parse_postgresql(address, {})
    servers = servers_of(url)
    rest = {name: value for name, value in url.query.items() if name not in {"host", "port"}}
    return {
        "servers": [(each.host, each.port) for each in servers],
        "user": url.username,
        "password": url.password or None,
        "dbname": url.database,
        **rest,
    }


def read_by_libpq(address: str) -> dict[str, object]:
    found = {name: str(value) for name, value in conninfo_to_dict(address).items()}
    hosts = found.pop("host", "").split(",")
    ports = found.pop("port", "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    return {
        "servers": [(host, int(port or 5432)) for host, port in zip(hosts, ports, strict=True) if host],
        "user": found.pop("user", None),
        "password": found.pop("password", None) or None,
        "dbname": found.pop("dbname", None),
        **found,
    }


@pytest.mark.parametrize("address", ADDRESSES)
def test_address_is_read_as_libpq_reads_it(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: None)
    try:
        expected = read_by_libpq(address)
    except ProgrammingError:
        with pytest.raises(ConfigurationInvalid):
            parse_postgresql(address, {})
        return
    if expected["dbname"] is None:
        expected["dbname"] = expected["user"]
    assert read(address) == expected


def test_hosts_with_ports_in_the_query_are_read() -> None:
    for address in (
        "postgresql://ada@/shop?host=one.example.com:5433,two.example.com:5434",
        "postgresql+asyncpg://ada@/shop?host=one.example.com:5433,two.example.com:5434",
    ):
        assert read(address)["servers"] == [("one.example.com", 5433), ("two.example.com", 5434)]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (
            "postgresql://db.example.com/shop?sslmod=require",
            "the parameter sslmod is unknown; did you mean sslmode?",
        ),
        ("postgresql://db.example.com/shop?colour=blue", "the parameter colour is unknown; remove it"),
        ("postgresql://db.example.com/shop?sslmode=maybe", "sslmode must be disable or allow or prefer"),
        ("postgresql://db.example.com/shop?sslmode", "the parameter sslmode has no value"),
        ("postgresql://db.example.com/shop?sslrootcert=/no/such/file", "the file /no/such/file does not exist"),
        ("postgresql://db.example.com/shop?connect_timeout=soon", "connect_timeout must be a whole number"),
        ("postgresql://db.example.com:none/shop", "the port none must be a number from 1 to 65535"),
        ("postgresql://db.example.com:70000/shop", "the port 70000 must be"),
        ("postgresql://one,two,three:1,2/shop?port=1,2", "4 hosts have 2 ports"),
        ("postgresql://db.example.com/shop?service=none", "the service none is not in"),
        ("postgresql://db.example.com/shop?sslmode=verify-full", "needs the certificate of the authority"),
        ("postgresql://db.example.com/shop?sslrootcert=system&sslmode=require", "needs sslmode=verify-full"),
        ("postgresql://[::1/shop", "is not a host"),
        ("host=db.example.com dbname='open", "not a database URL"),
        ("mysql://db.example.com/shop", "mysql is not supported"),
    ],
)
def test_wrong_address_is_refused_with_its_reason(
    address: str, problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationInvalid) as refused:
        parse_url(address)
    assert problem in str(refused.value)
    assert str(refused.value).startswith("MAILWRIGHT_DATABASE_URL: ")


def test_service_file_and_variables_complete_an_address(tmp_path: Path) -> None:
    file = tmp_path / "services"
    file.write_text("[shop]\nhost=db.example.com\nport=5433\nuser=ada\ndbname=shop\nsslmode=disable\n")
    environment = {"PGSERVICEFILE": str(file), "PGSERVICE": "shop", "PGUSER": "grace", "PGHOST": "other.example.com"}
    url = parse_postgresql("postgresql://", environment)
    assert (url.username, url.host, url.port, url.database) == ("ada", "db.example.com", 5433, "shop")
    url = parse_postgresql("postgresql:///news?service=shop&sslmode=require", environment)
    assert (url.database, url.query) == ("news", {"sslmode": "require"})
    url = parse_postgresql("postgresql:///news", {"PGHOST": "one,two", "PGPORT": "5433,5434", "PGUSER": "grace"})
    assert (url.username, str(servers_of(url)[1])) == ("grace", "two:5434")


def test_password_never_appears_in_a_refusal() -> None:
    for address in ("postgresql://ada:secret@host:none/shop", "postgresql://ada:secret@host/shop?sslmode=x"):
        with pytest.raises(ConfigurationInvalid) as refused:
            parse_url(address)
        assert "secret" not in str(refused.value)
