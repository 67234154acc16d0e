#!/bin/sh
# Write the secrets of compose.scale.yaml into deploy/secrets. Existing files stay as they are.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
write() {
    [ -e "secrets/$1" ] || printf '%s\n' "$2" > "secrets/$1"
    # The folder protects them on this machine; in a container, another user reads them.
    chmod 444 "secrets/$1"
}
write postgres_password "$(openssl rand -hex 24)"
write database_url "postgresql://mailwright:$(cat secrets/postgres_password)@postgres/mailwright"
write secret_key "$(openssl rand -base64 32)"
echo "The secrets are in $(pwd)/secrets. Back up secret_key, but not together with the database."
