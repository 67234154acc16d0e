"""Addresses of Valkey servers and of Sentinels."""

import pytest
from redis import Redis

from mailwright.domain.errors import ConfigurationInvalid
from mailwright.outbox.valkey_address import parse_address


@pytest.mark.parametrize(
    "address",
    [
        "redis://valkey.internal:6380/2",
        "redis://valkey.internal",
        "redis://:secret@valkey.internal/1",
        "redis://ada:s%40cret@valkey.internal/1",
        "rediss://ada:secret@valkey.internal:6380/0?ssl_cert_reqs=none",
        "redis://[::1]:6380/1",
        "unix:///run/valkey.sock?db=3",
    ],
)
def test_address_is_read_as_the_client_library_reads_it(address: str) -> None:
    expected = Redis.from_url(address).connection_pool.connection_kwargs
    found = parse_address(address)
    for name in ("username", "password", "ssl_cert_reqs"):
        assert found.login.get(name) == expected.get(name)
    assert found.login["db"] == expected.get("db", 0)
    if found.socket is not None:
        assert found.socket == expected["path"]
        return
    assert found.servers == ((expected["host"], expected.get("port", 6379)),)


def test_sentinels_are_read_with_the_name_of_the_server() -> None:
    found = parse_address("redis+sentinel://ada:secret@one:26380,two/mail/1?sentinel_password=other")
    assert found.servers == (("one", 26380), ("two", 26379))
    assert (found.service, found.login["db"], found.login["password"]) == ("mail", 1, "secret")
    assert found.sentinel_login == {"password": "other"}


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://valkey.internal", "use redis://host:6379/0"),
        ("valkey.internal:6379", "use redis://host:6379/0"),
        ("redis://valkey.internal/zero", "zero is not the number of a database"),
        ("redis://one,two/0", "several hosts need Sentinel"),
        ("redis://valkey.internal:port/0", "is not a host"),
        ("redis+sentinel://one:26379", "the name that Sentinel knows the server by is missing"),
        ("redis+cluster://one:26379", "use redis://host:6379/0"),
        ("redis://valkey.internal/0?sslmode=require", "the parameter sslmode is unknown"),
        ("redis://valkey.internal/0?ssl_cert_reqs=none", "ssl_cert_reqs needs TLS; begin the address with rediss://"),
        ("rediss://valkey.internal/0?ssl_cert_reqs=maybe", "ssl_cert_reqs must be none or optional or required"),
        ("rediss://valkey.internal/0?ssl_ca_certs=/no/such/file", "the file /no/such/file does not exist"),
    ],
)
def test_wrong_address_is_refused_with_its_reason(address: str, problem: str) -> None:
    with pytest.raises(ConfigurationInvalid) as refused:
        parse_address(address)
    assert str(refused.value).startswith("MAILWRIGHT_REDIS_URL: ")
    assert problem in str(refused.value)
