"""DKIM keys, loaded from PEM. This is a separate module, so that `cryptography` is imported only if a key is set."""

import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from mailwright.domain import address
from mailwright.domain.errors import ConfigurationInvalid
from mailwright.domain.lazy_dataclass import dataclass

MIN_RSA_BITS = 2048


@dataclass(frozen=True, slots=True)
class DkimKey:
    domain: str
    selector: str
    key: RSAPrivateKey | Ed25519PrivateKey

    @classmethod
    def load(cls, pem: str, domain: str, selector: str, *, is_ours: bool = False) -> "DkimKey":
        """Load an unencrypted private key. Called at start-up, so that a wrong key is found before the first email.

        `is_ours` skips the check of the numbers of an RSA key, which takes a fifth of a second, for a key that
        Mailwright created.
        """
        try:
            domain = address.parse(f"postmaster@{domain}")[1]
        except address.InvalidAddress as error:
            raise ConfigurationInvalid(f"DKIM: {domain!r} is not a domain: {error}") from error
        if not _SELECTOR.fullmatch(selector):
            raise ConfigurationInvalid(f"DKIM: {selector!r} is not a selector. Use letters, digits, hyphens and dots.")
        return cls(domain, selector, _private_key(pem, is_ours))

    @property
    def algorithm(self) -> str:
        return "rsa-sha256" if isinstance(self.key, RSAPrivateKey) else "ed25519-sha256"

    def signature(self, digested: bytes) -> bytes:
        if isinstance(self.key, RSAPrivateKey):
            return self.key.sign(digested, padding.PKCS1v15(), hashes.SHA256())
        # RFC 8463: Ed25519 signs the SHA-256 hash instead of the text.
        return self.key.sign(sha256(digested).digest())

    def record(self) -> str:
        """Return the TXT record to publish at `selector._domainkey.domain`."""
        public = self.key.public_key()
        if isinstance(self.key, RSAPrivateKey):
            kind = "rsa"
            data = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        else:
            kind = "ed25519"
            data = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return f"v=DKIM1; k={kind}; p={b64encode(data).decode()}"


_SELECTOR = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


def new_private_key(algorithm: str = "rsa") -> str:
    """Create a key as PEM text: `rsa`, which every receiver can verify, or `ed25519`."""
    key: RSAPrivateKey | Ed25519PrivateKey
    if algorithm == "rsa":
        key = rsa.generate_private_key(public_exponent=65537, key_size=MIN_RSA_BITS)
    else:
        key = Ed25519PrivateKey.generate()
    formats = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *formats).decode()


@lru_cache(maxsize=16)
def _private_key(pem: str, is_ours: bool) -> RSAPrivateKey | Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None, unsafe_skip_rsa_key_validation=is_ours)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationInvalid("DKIM: the key cannot be loaded; use a PEM private key without password.") from error
    if isinstance(key, Ed25519PrivateKey):
        return key
    if not isinstance(key, RSAPrivateKey):
        raise ConfigurationInvalid("DKIM: the key must be an RSA or Ed25519 key.")
    if key.key_size < MIN_RSA_BITS:
        raise ConfigurationInvalid(f"DKIM: the RSA key has {key.key_size} bits; at least {MIN_RSA_BITS} are required.")
    return key
