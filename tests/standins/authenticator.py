"""A software authenticator (WebAuthn) for tests that signs whatever a test asks for.

device = Authenticator()
form = {"credential": device.register(options)}
form = {"credential": device.sign(options, is_verified=False)}
"""

import hashlib
import json
import secrets
import struct
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


@dataclass
class Authenticator:
    origin: str = "https://mail.example"
    host: str = "mail.example"
    count: int = 0
    handle: bytes = b""
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def register(self, options: dict[str, Any], *, is_verified: bool = True) -> str:
        asked = options["publicKey"]
        self.handle = websafe_decode(asked["user"]["id"])
        public = cbor.encode(dict(ES256.from_cryptography_key(self.key.public_key())))
        attested = bytes(16) + struct.pack(">H", len(self.credential_id)) + self.credential_id + public
        data = self._data(ATTESTED, is_verified) + attested
        response = {"attestationObject": cbor.encode({"fmt": "none", "attStmt": {}, "authData": data})}
        return self._answer("webauthn.create", asked["challenge"], response)

    def sign(self, options: dict[str, Any], *, is_verified: bool = True, handle: bytes | None = None) -> str:
        challenge, data = options["publicKey"]["challenge"], self._data(0, is_verified)
        signed = data + hashlib.sha256(self._client_data("webauthn.get", challenge)).digest()
        signature = self.key.sign(signed, ec.ECDSA(hashes.SHA256()))
        response = {"authenticatorData": data, "signature": signature, "userHandle": handle or self.handle}
        return self._answer("webauthn.get", challenge, response)

    def _data(self, flags: int, is_verified: bool) -> bytes:
        flags |= PRESENT | (VERIFIED if is_verified else 0)
        return hashlib.sha256(self.host.encode()).digest() + bytes([flags]) + struct.pack(">I", self.count)

    def _client_data(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _answer(self, kind: str, challenge: str, response: dict[str, bytes]) -> str:
        parts = {"clientDataJSON": self._client_data(kind, challenge), **response}
        name = websafe_encode(self.credential_id)
        encoded = {part: websafe_encode(content) for part, content in parts.items()}
        whole = {"id": name, "rawId": name, "type": "public-key", "response": encoded, "clientExtensionResults": {}}
        return json.dumps(whole)
