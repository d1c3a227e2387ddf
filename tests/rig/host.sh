# SPDX-License-Identifier: MIT
# Sourced by tests/rig/*.host, which run on the host when the virtual machine has ended: what it left in $OUT is compared
# with the truth log there. TAP without numbers, as in guest.sh.
# shellcheck shell=bash disable=SC2034,SC2154
set -u
failed=0 runs=0 instructions=0 different=0
cache=${CSIGHT_RIG_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/csight-rig}
images=(--images "$top_builddir/tests/rig/aarch64/tests/programs" --images "$cache/root")

ok() { # NAME COMMAND...
  local name=$1
  shift
  if "$@"; then
    echo "ok - $name"
  else
    echo "not ok - $name"
    failed=1
  fi
}

note() { sed 's/^/# /'; }

elements() { # DIRECTORY|FILE
  local errors=$1.errors
  [ ! -d "$1" ] || errors=$1/errors
  "$top_builddir/csight" decode -q --to elements --by-thread "${images[@]}" "$1" 2>"$errors"
}

# Whether the decode of a snapshot agrees with the truth. What was compared goes to `compared`.
compares() { # DIRECTORY OPTION-OF-compare...
  elements "$1" | "$top_builddir/tests/rig/compare" "${@:2}" "$OUT" >"$1/compared"
  status="${PIPESTATUS[*]}"
  [ "$status" = '0 0' ]
}

# Loss that depends on how fast the host is, and that csightd or the decoder reports: on a fast one, programs may have
# more threads than the decoder takes; on a slow one, others may have overwritten all of a shared sink.
reports_loss() { # DIRECTORY
  local warnings
  warnings=$("$top_builddir/csight" decode --to none "${images[@]}" "$1" 2>&1 | grep 'warning: ')
  if grep -E 'more than [0-9]+ threads ran' <<<"$warnings" | note | grep .; then
    echo "$1: lacks these" | note
    return 0
  fi
  [ "${LOAD:-0}" -gt 0 ] || return 1
  if grep 'no execution in the trace is known to be of the process' <<<"$warnings" | note | grep .; then
    return 0
  fi
  grep -qs 'the kernel lost records' "$1/snapshot.json" || elements "$1" | grep -Ec ' no-sync (truncated|lost)' | grep -qv '^0' || return 1
  echo "$1: may lack what is reported as lost" | note
}

# Whether a snapshot decodes to what ran; `how` beside it has the options of compare. Beside a load more may be missing.
exact() { # DIRECTORY
  local how status
  read -ra how <"$1/how"
  runs=$((runs + 1))
  if compares "$1" "${how[@]}" || { reports_loss "$1" && compares "$1" "${how[@]}" -g; }; then
    instructions=$((instructions + $(cut -d ' ' -f 1 "$1/compared")))
    return 0
  fi
  different=$((different + 1))
  echo "$1:" | note
  tail -n 5 "$1/errors" | note
  head -n 30 "$1/compared" | note
  return 1
}

thread_is() { # FILE THREAD OPTION-OF-compare...
  awk -v thread="$2" '/^# thread/ { on = $3 == thread; next } on' "$1.elements" |
    "$top_builddir/tests/rig/compare" "${@:3}" "$OUT" "$2" >"$1.compared"
  status=$?
  { echo "thread $2:"; cat "$1.compared"; } | note
  return "$status"
}

# Whether each thread of a perf.data file, or each of this name, decodes to what ran, of which there is some; beside a
# load more may be missing. The programs are static: only the vdso is up there, and it is in no file. What ran before
# their exec may be missing.
threads_are() { # FILE NAME|'' [OPTION-OF-compare]...
  local file=$1 name=$2 thread n=0
  local how=(-w -x ff0000000000:1000000000000 "${@:3}")
  elements "$file" >"$file.elements" || { note <"$file.errors"; return 1; }
  while read -r thread; do
    [ -z "$name" ] || "$top_builddir/csight" info "$file" | grep -q "^  [0-9]*/$thread  $name" || continue
    thread_is "$file" "$thread" "${how[@]}" || { reports_loss "$file" && thread_is "$file" "$thread" "${how[@]}" -g; } || return 1
    n=$((n + $(cut -d ' ' -f 1 "$file.compared")))
  done < <(awk '/^# thread/ { print $3 }' "$file.elements" | sort -un)
  rm "$file.elements"
  [ "$n" -gt 100 ]
}

exactly() { # NAME DIRECTORY...: all of them; their figures in one line
  local name=$1 one good=0 all=0
  shift
  for one; do
    [ -d "$one" ] || continue
    all=$((all + 1))
    exact "$one" && good=$((good + 1))
  done
  cat "${@/%//compared}" 2>/dev/null | grep ' equal, ' | note
  ok "$name: $good of $all snapshots are what ran" test "$good:$all" = "$all:$#"
}

total() { echo "# $runs snapshots, $instructions instructions equal, $different snapshots differ"; }

finish() { exit "$failed"; }
