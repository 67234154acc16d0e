#!/bin/sh
# Run a command of Mailwright as the services do: as their user, in their folder, with their settings.
#
#   install -m 0755 mailwright.sh /usr/local/bin/mailwright
#
# Paths on the command line are absolute, because the command runs in /var/lib/mailwright.
set -eu
export MAILWRIGHT_STATE=/var/lib/mailwright-state
# As systemd reads it: a value may have spaces and be quoted, and nothing in it is expanded.
while IFS= read -r line || [ -n "$line" ]; do
    case $line in
    '' | '#'* | ';'*) continue ;;
    *=*) ;;
    *) continue ;;
    esac
    value=${line#*=}
    case $value in
    \"*\") value=${value#\"} value=${value%\"} ;;
    \'*\') value=${value#\'} value=${value%\'} ;;
    esac
    export "${line%%=*}=$value"
done < /etc/mailwright/environment
cd /var/lib/mailwright
[ "$(id -un)" != mailwright ] || exec /opt/mailwright/bin/mailwright "$@"
exec runuser --user mailwright -- /opt/mailwright/bin/mailwright "$@"
