# Sourced by tests/rig/*.rig, which run as root inside the virtual machine: TAP without numbers (the rig adds the plan),
# users, units. $RIG holds what the host brought, what is left in $OUT goes back to it.
# shellcheck shell=bash disable=SC2034
set -u
failed=0
programs=$RIG/programs

ok() { # NAME COMMAND...: passes when the command does
  local name=$1
  shift
  if "$@"; then
    echo "ok - $name"
  else
    echo "not ok - $name"
    failed=1
  fi
}

skip() { echo "ok - $1 # SKIP $2"; } # NAME REASON
note() { sed 's/^/# /'; }            # standard input, as comments
quiet() { "$@" >/dev/null 2>&1; }    # COMMAND...: without its output
refused() { ! "$@" >/dev/null 2>&1; }

until_true() { # COMMAND...: tries it for 30 seconds
  local i
  for ((i = 0; i < 150; i++)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.2
  done
  return 1
}

as() { # USER COMMAND...: as alice (1001) or bob (1002), with nothing of root's
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --reset-env "$@"
}

unit_is() { [ "$(systemctl is-active "$1")" = "$2" ]; } # UNIT STATE
property() { systemctl show -P "$2" "$1"; }             # UNIT PROPERTY

finish() { exit "$failed"; }
