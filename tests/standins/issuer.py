"""An identity provider (OpenID Connect) for tests that breaks the rules as scripted.

async with IssuerStandIn(clock) as issuer:
    issuer.claims["nonce"] = "of another sign-in"
    answer = issuer.authorize(url)  # the query of the callback, for the person `issuer.claims` describes
"""

import base64
import hashlib
import json
import secrets
from functools import cache
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from mailwright.domain.clock import Clock
from tests.standins.http import Answer, HttpStandIn, Request, json_answer

CLIENT, SECRET = "mailwright-test", "a secret: 100% & more"


@cache
def signing_key(name: str) -> rsa.RSAPrivateKey:
    """Return the key with this name. All tests share them, because creating one takes a while."""
    return rsa.generate_private_key(65537, 2048)


def public_pem(name: str) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return signing_key(name).public_key().public_bytes(encoding, form)


class IssuerStandIn(HttpStandIn):
    def __init__(self, clock: Clock, **options: Any) -> None:
        super().__init__(**options)
        self.clock = clock
        self.claims: dict[str, Any] = {"sub": "ada-1", "email": "ada@example.com", "email_verified": True}
        self.user_info: dict[str, Any] = {}
        self.document: dict[str, Any] = {}  # changes of the discovery document
        self.token: str | None = None  # replaces the ID token
        self.published = ["one"]
        self.signs_with = "one"
        self._codes: dict[str, dict[str, str]] = {}

    def settings(self, **changes: Any) -> dict[str, Any]:
        """The settings of a client of this provider."""
        own = {"oidc_issuer": self.url, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET}
        return {**own, "oidc_label": "Example Corp", **changes}

    def authorize(self, url: str) -> dict[str, str]:
        """Sign in the person, as the provider's page would, and return the query of the callback."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self._codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def usual(self, request: Request) -> Answer:
        match request.path:
            case "/.well-known/openid-configuration":
                return json_answer(200, self._discovery())
            case "/keys":
                return json_answer(200, {"keys": [self._key(name) for name in self.published]})
            case "/token":
                return self._tokens(request)
            case "/userinfo":
                return json_answer(200, self.user_info)
            case _:
                return json_answer(404, {"error": "not_found"})

    def id_token(self, nonce: str, **header: Any) -> str:
        now = self.clock.now() // 1000
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce, **self.claims}
        kept = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(kept, signing_key(self.signs_with), "RS256", headers={"kid": self.signs_with, **header})

    def _discovery(self) -> dict[str, Any]:
        endpoints = {
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "userinfo_endpoint": f"{self.url}/userinfo",
        }
        return {"issuer": self.url, **endpoints, **self.document}

    def _key(self, name: str) -> dict[str, Any]:
        return {
            **json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(signing_key(name).public_key())),
            "kid": name,
            "use": "sig",
        }

    def _tokens(self, request: Request) -> Answer:
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        asked = self._codes.pop(form.get("code", ""), None)  # A code works once.
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != form["redirect_uri"]:
            return json_answer(400, {"error": "invalid_grant"})
        if not self._is_client(request, form):
            return json_answer(401, {"error": "invalid_client"})
        token = self.token if self.token is not None else self.id_token(asked["nonce"])
        return json_answer(200, {"id_token": token, "access_token": "access", "token_type": "Bearer"})

    def _is_client(self, request: Request, form: dict[str, str]) -> bool:
        if "client_secret" in form:
            return (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        given = base64.b64decode(request.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        return [unquote_plus(part) for part in given.split(":")] == [CLIENT, SECRET]
