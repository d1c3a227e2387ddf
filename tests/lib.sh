# SPDX-License-Identifier: MIT
# Sourced by tests/*/*.test: TAP output, a private daemon, and a clean-up that ends only processes the test started.
# shellcheck shell=bash disable=SC2034
set -u
top_srcdir=${top_srcdir:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
top_builddir=${top_builddir:-$top_srcdir/build}
csight=$top_builddir/csight
csightd=$top_builddir/csightd
programs=$top_builddir/tests/programs
# Only tests of the cache use one: they set it to a size, and XDG_CACHE_HOME.
export CSIGHT_CACHE_MAX=0
work=$(mktemp -d "${TMPDIR:-/tmp}/csight-test-XXXXXX")
count=0
failed=0
started=()
daemon=''

ok() { # NAME COMMAND...: a check that passes if the command succeeds
  local name=$1
  shift
  count=$((count + 1))
  if "$@"; then
    echo "ok $count - $name"
  else
    echo "not ok $count - $name"
    failed=1
  fi
}

skip() { # NAME REASON
  count=$((count + 1))
  echo "ok $count - $1 # SKIP $2"
}

todo() { # NAME REASON COMMAND...: a check that is known to fail, for a reason
  local name=$1 reason=$2
  shift 2
  count=$((count + 1))
  if "$@"; then
    echo "ok $count - $name"
  else
    echo "not ok $count - $name # TODO $reason"
  fi
}

quiet() { # COMMAND...: runs it without its standard output, for use in ok, whose own output is TAP
  "$@" >/dev/null
}

note() { sed 's/^/# /'; } # prints standard input as TAP comments

plan() { # prints the number of checks and exits
  echo "1..$count"
  exit "$failed"
}

background() { # COMMAND...: starts it, with its pid in $!; the clean-up ends it
  "$@" &
  started+=($!)
}

end_of() { # PID [SIGNAL]: ends a process that the test started, and waits for it
  kill "${2:--TERM}" "$1" 2>/dev/null
  wait "$1" 2>/dev/null
}

until_true() { # COMMAND...: repeats it until it succeeds, 600 times, for a minute or more
  local i
  for ((i = 0; i < 600; i++)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  return 1
}

start_daemon() { # [OPTION...]: starts a daemon for this test; CSIGHT_SOCKET is its socket
  export CSIGHT_SOCKET=$work/run/csight.sock
  mkdir -p "$work/run" && chmod 755 "$work" "$work/run"
  # The system's daemon wants a user for decodes; the user csight exists where csight is installed.
  case " $* " in *" --system "*) set -- "$@" --set=decode-user=daemon ;; esac
  "$csightd" --socket "$CSIGHT_SOCKET" --spool "$work/spool" "$@" >>"$work/daemon.log" 2>&1 &
  daemon=$!
  started+=("$daemon")
  until_true "$csight" status || { note <"$work/daemon.log"; return 1; }
}

children() { "$top_builddir/tests/daemon/children" "$@"; } # PID: the pids of its children, one a line

server_of() { # the pid of the daemon's server of csight-decode: a child, or where units start it, the newest of theirs
  if [ "${CSIGHT_UNITS:-}" ]; then pgrep -n -P 1 -x csight-decode; else children "$daemon" | head -n 1; fi
}

json() { # FILE|- EXPRESSION: prints the value of a Python expression over d, the JSON document
  "$PYTHON3" -c 'import json, sys
d = json.load(open(sys.argv[1]) if sys.argv[1] != "-" else sys.stdin)
r = eval(sys.argv[2])
print(r if not isinstance(r, bool) else str(r).lower())' "$1" "$2"
}

need() { # NAME PROGRAM...: skips the whole test if one of the programs is missing
  local name=$1 what
  shift
  for what; do
    command -v "$what" >/dev/null || { skip "$name" "$what is not installed"; plan; }
  done
}

clean_up() {
  local pid
  for pid in "${started[@]:+${started[@]}}"; do
    kill "$pid" 2>/dev/null
  done
  for pid in "${started[@]:+${started[@]}}"; do
    wait "$pid" 2>/dev/null
  done
  [ "${KEEP:-}" ] && echo "# kept: $work" || rm -rf "$work"
}
trap clean_up EXIT
