from collections.abc import Callable

import dkim
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from hypothesis import given
from hypothesis import strategies as st

from mailwright.content.dkim import DkimSigner, relaxed_body
from mailwright.content.dkim_key import DkimKey
from mailwright.content.mime import Mailbox, UnsubscribeTargets, build_email
from mailwright.domain.errors import ConfigurationInvalid
from tests.signatures import is_signed
from tests.unit.content.emails import an_email


def pem(key: PrivateKeyTypes) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


RSA = DkimKey.load(pem(rsa.generate_private_key(65537, 2048)), "example.com", "r2027")
ED25519 = DkimKey.load(pem(ed25519.Ed25519PrivateKey.generate()), "example.com", "e2027")
BOTH = DkimSigner([RSA, ED25519])


def find_record(name: str) -> str | None:
    return {f"{key.selector}._domainkey.{key.domain}": key.record() for key in (RSA, ED25519)}.get(name)


def verifies(content: bytes, index: int = 0) -> bool:
    return is_signed(content, find_record, index)


def a_signed_email() -> bytes:
    email = an_email(
        subject="Grüße aus Köln, mit einem langen Betreff, der auf mehrere Zeilen verteilt werden muss",
        reply_to=(Mailbox("r@example.com"),),
        unsubscribe=UnsubscribeTargets("https://example.com/u/abc", "mailto:u@example.com"),
        feedback_id="c:t:k:mw",
        text="two  blanks \n\tand a tab\n\n\n",
    )
    # The verifier refuses a signature from the future, by its own clock.
    return BOTH.sign(build_email(email), 1_700_000_000_000)


@pytest.mark.promise("content-dkim")
def test_independent_verifier_accepts_both_signatures() -> None:
    signed = a_signed_email()
    assert signed.count(b"DKIM-Signature:") == 2
    assert signed.index(b"a=rsa-sha256") < signed.index(b"a=ed25519-sha256")
    assert verifies(signed, 0)
    assert verifies(signed, 1)


@pytest.mark.promise("content-dkim")
@pytest.mark.parametrize(
    "change",
    [
        lambda message: message.replace(b"From: Example", b"From: Another"),
        lambda message: message.replace(b"To: Jane", b"To: Joan"),
        lambda message: message.replace(b"/u/abc", b"/u/abd"),
        lambda message: message.replace(b"One-Click", b"Two-Click"),
        lambda message: message.replace(b"two =20", b"six =20").replace(b"two  ", b"six  "),
        lambda message: message.replace(b"\r\nTo:", b"\r\nFrom: evil@example.net\r\nTo:", 1),
        lambda message: message.replace(b"\r\nTo:", b"\r\nSubject: another\r\nTo:", 1),
        lambda message: message + b"more\r\n",
    ],
)
def test_any_change_breaks_the_signatures(change: Callable[[bytes], bytes]) -> None:
    signed = a_signed_email()
    changed = change(signed)
    assert changed != signed
    assert not verifies(changed, 0)
    assert not verifies(changed, 1)


@pytest.mark.promise("content-dkim")
def test_both_unsubscribe_headers_are_signed_and_lines_are_short() -> None:
    head = a_signed_email().partition(b"\r\nFrom:")[0].replace(b"\r\n ", b"")
    listed = head.partition(b"h=")[2].partition(b";")[0].replace(b" ", b"").split(b":")
    assert {b"list-unsubscribe", b"list-unsubscribe-post", b"from", b"feedback-id"} <= set(listed)
    assert listed.count(b"from") == 2
    signature = a_signed_email().partition(b"\r\nFrom:")[0]
    assert max(len(line) for line in signature.split(b"\r\n")) <= 80


@pytest.mark.promise("content-dkim")
@given(st.lists(st.sampled_from([b"a", b" ", b"\t", b"\r\n", b"  \r\n", b"b c"]), max_size=12))
def test_canonical_body_matches_independent_verifier(pieces: list[bytes]) -> None:
    body = b"".join(pieces)
    complete = body if body.endswith(b"\r\n") or not body else body + b"\r\n"
    expected = dkim.canonicalization.Relaxed.canonicalize_body(complete)
    assert relaxed_body(body) == (expected if expected != b"\r\n" else b"")


@pytest.mark.promise("content-dkim")
@pytest.mark.parametrize(
    ("key", "domain", "selector", "reason"),
    [
        ("nonsense", "example.com", "s", "use a PEM private key"),
        (pem(rsa.generate_private_key(65537, 1024)), "example.com", "s", "1024 bits"),
        (pem(ec.generate_private_key(ec.SECP256R1())), "example.com", "s", "RSA or Ed25519"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "not a domain", "s", "is not a domain"),
        (pem(ed25519.Ed25519PrivateKey.generate()), "example.com", "s; d=x", "is not a selector"),
    ],
)
def test_invalid_key_is_refused_with_the_reason(key: str, domain: str, selector: str, reason: str) -> None:
    with pytest.raises(ConfigurationInvalid, match=reason):
        DkimKey.load(key, domain, selector)
