"""Verify signatures with the certificates of SNS. Imported on first use because `cryptography` is large."""

import re
from collections.abc import Mapping
from functools import cached_property

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import NameOID

from mailwright.domain.clock import Instant, to_instant
from mailwright.providers.inbound.rejected_events import ForgedEvent

MIN_KEY_BITS = 2_048

# The accepted issuer and subject. SNS serves only the leaf certificate, so its chain cannot be checked. It is trusted
# because it was fetched from SNS over TLS.
ISSUERS = frozenset({"Amazon"})
_SUBJECT = re.compile(r"sns(?:[.-][a-z0-9-]+)*\.amazonaws\.com(?:\.cn)?")
_PEM = re.compile(
    rb"\s*(?:-----BEGIN CERTIFICATE-----\r?\n[A-Za-z0-9+/=\r\n]{1,20000}-----END CERTIFICATE-----\s*){1,5}"
)

_HASHES: Mapping[str, hashes.HashAlgorithm] = {"1": hashes.SHA1(), "2": hashes.SHA256()}  # noqa: S303 - SNS chooses

_PADDING = PKCS1v15()


class SnsCertificate:
    def __init__(self, content: bytes) -> None:
        # Accept nothing around the certificate. The parser would also find one in a web page that anyone can publish.
        if _PEM.fullmatch(content) is None:
            raise ForgedEvent("SigningCertURL does not lead to a certificate.")
        try:
            self._certificate = x509.load_pem_x509_certificate(content)
        except ValueError as error:
            raise ForgedEvent("SigningCertURL does not lead to a certificate.") from error

    @cached_property
    def _validity(self) -> tuple[Instant, Instant]:
        certificate = self._certificate
        return to_instant(certificate.not_valid_before_utc), to_instant(certificate.not_valid_after_utc)

    @cached_property
    def _key(self) -> RSAPublicKey:
        key = self._certificate.public_key()
        if not isinstance(key, RSAPublicKey) or key.key_size < MIN_KEY_BITS:
            raise ForgedEvent("The certificate's key is not an RSA key of at least 2048 bits.")
        return key

    def check_names(self) -> None:
        subject = _names(self._certificate.subject, NameOID.COMMON_NAME)
        issuer = _names(self._certificate.issuer, NameOID.ORGANIZATION_NAME)
        if not any(_SUBJECT.fullmatch(name) for name in subject) or not ISSUERS.intersection(issuer):
            raise ForgedEvent("The certificate was not issued by Amazon for SNS.")

    def check_signature(self, signature: bytes, text: bytes, *, version: str, now: Instant) -> None:
        """Raise `ForgedEvent` unless the signature is valid. `version` is one of `sns.SIGNATURE_VERSIONS`."""
        begins, ends = self._validity
        if not begins <= now <= ends:
            raise ForgedEvent("The certificate is not valid at this time.")
        try:
            self._key.verify(signature, text, _PADDING, _HASHES[version])
        except InvalidSignature as error:
            raise ForgedEvent from error


def _names(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in name.get_attributes_for_oid(oid)]
