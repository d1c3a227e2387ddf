# SPDX-License-Identifier: MIT
# Sourced by tests/rig/*.rig, which run as root inside the virtual machine: TAP without numbers (the rig adds the plan),
# users, units. $RIG holds what the host brought, what is left in $OUT goes back to it.
# shellcheck shell=bash disable=SC2034
set -u
# shellcheck source=/dev/null
. "$RIG/settings"
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

until_true() { # COMMAND...: tries it for 30 seconds, beside a load for longer
  local i
  for ((i = 0; i < 150 * (LOAD + 2) / 2; i++)); do
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

# The trace hardware, and programs to trace. csightd's keeper would have it in use for a while.
rmmod() {
  quiet systemctl stop csight-keeper.service
  command rmmod "$@"
}
hardware() { # PARAMETER...: the module anew, with a daemon that knows it
  systemctl stop csightd
  rmmod csight-rig 2>/dev/null
  modprobe coresight && insmod "$RIG/module/csight-rig.ko" "$@" && systemctl start csightd
}
launch() { # USER COMMAND...: in the background, until it is that user's; its process in $pid
  setpriv --reuid "$1" --regid "$1" --clear-groups --inh-caps=-all --reset-env "${@:2}" &
  pid=$!
  until_true launched "$pid" "$1"
}
# QEMU 7 may keep the code that one CPU translates while another changes it. A tracepoint that was just switched on is then
# reached by no process, until it is off and on again. perf shows that: it counts for itself.
reached() { # TRACEPOINT...
  local event
  for event; do
    perf stat -x, -o counted -e "$event" -- sh -c 'trap : USR1; kill -USR1 $$' >/dev/null 2>&1
    grep -q "^[1-9][0-9]*,.*$event" counted || { echo "the emulator reaches no $event" | note >&2; return 1; }
  done
}
# A trigger of alice's; prints its number, or 0. Beside a load csightd may have to give up opening the events, as others
# wait for it meanwhile.
set_trigger() { # OPTION...
  local try
  for ((try = 0; try <= LOAD; try++)); do
    as alice csight watch --pid "$pid" --background "$@" 2>said && return
    note <said >&2
    grep -q 'took too long' said || break
  done
  echo 0
}
set_reached() { # "TRACEPOINT..." OPTION...: the same, and the kernel reports its hits
  local events=$1 number try
  shift
  for ((try = 0; try < 5; try++)); do
    number=$(set_trigger "$@")
    [ "$number" != 0 ] || break
    # shellcheck disable=SC2086
    reached $events && break
    quiet as alice csight triggers --remove "$number"
  done
  echo "$number"
}
# Between its becoming another's and its exec it is nobody's but root's; so is one that ended.
launched() { [ "$(stat -c %U "/proc/$1" 2>/dev/null)" = "$2" ] || ! grep -q '^State:.[^Z]' "/proc/$1/status"; }
busy() { # USER [CPUS]: one that computes all the time
  launch "$1" taskset -c "${2:-0-1}" python3 -c 'while True: sum(range(20000))'
  until_true grep -q '^python3' "/proc/$pid/comm"
}
state_of() { csight targets | awk -v pid="$1" '$1 == pid { print $3 }'; }
is() { [ "$(state_of "$1")" = "$2" ]; } # PID STATE
says() { # TEXT COMMAND...: whatever its status
  local text=$1
  shift
  "$@" >/tmp/said 2>&1
  grep -qF -- "$text" /tmp/said || { note </tmp/said; return 1; }
}
daemon() { property csightd MainPID; }
perf_events() { find "/proc/$(daemon)/fd" -lname '*perf_event*' 2>/dev/null | wc -l; }
in_use() { local n; read -r n </sys/module/csight_rig/refcnt && echo "$n"; } # trace units and sinks that lead somewhere
# What the kernel's log warns of. Where the out-of-memory killer was, that is no warning.
# Where the host stops the machine for long, a timer of the scheduler is late, of which Linux 7.3 warns.
warned() {
  dmesg | awk '/invoked oom-killer/ { oom = 1 } /WARNING: .* hrtimer_forward/ { late = 1 } /WARN|BUG:|Oops|Call trace/ && !oom && !late
    /oom-kill:/ { oom = 0 } /end trace/ { late = 0 }'
}
no_warning() { [ -z "$(warned)" ] || { warned | note; return 1; }; }

finish() { exit "$failed"; }

# csightd's decoders wait: what they run would be traced on a shared sink, too, and logged. All of them, also those that
# csightd has started later, or again, since systemd ends one that does not answer.
decoders() { # STOP|CONT|KILL
  local slice='system-csight\x2ddecode.slice'
  local group=/sys/fs/cgroup/system.slice/$slice
  systemctl start "$slice"
  case $1 in
    STOP) echo 1 >"$group/cgroup.freeze" ;;
    CONT) echo 0 >"$group/cgroup.freeze" ;;
    KILL) echo 1 >"$group/cgroup.kill" ;;
  esac
}

fresh() { # COMMAND...: csightd anew, without snapshots and with decoders that wait; between, the command
  decoders CONT
  systemctl stop csightd
  rm -rf /var/lib/csight/spool/*
  "$@"
  systemctl start csightd
  decoders STOP
}

trace_units() { # trbe|etr|etf|etb [PARAMETER...]: trace hardware with these sinks alone, and a csightd that knows it
  rmmod csight-rig 2>/dev/null
  modprobe coresight
  case $1 in
    trbe) insmod "$RIG/module/csight-rig.ko" etr=0 "${@:2}" ;;
    *) insmod "$RIG/module/csight-rig.ko" trbe=0 "$1=1" "${@:2}" ;;
  esac
}

# A program stopped right behind its exec (held.c), in $pid; it goes on by run_to_end and let_go. What its process ran
# before may be in the truth of a shared sink that is stopped no sooner than csightd looks.
begin() { # USER PROGRAM ARGUMENT...
  local user=$1
  shift
  pid='' kept='' begun=''
  coproc HELD { setpriv --reuid "$user" --regid "$user" --clear-groups --reset-env "$RIG/held" "$@" 2>&1; }
  owner=$user
  read -r pid <&"${HELD[0]}" && [ -e "/proc/$pid" ] && begun=$("$RIG/held" now) && return 0
  echo "held: $pid" | note
  return 1
}

run_to_end() {
  local said
  echo >&"${HELD[1]}"
  read -r said <&"${HELD[0]}" && [ "$said" = ended ]
}

let_go() { # also one that has not run
  local holder=$HELD_PID
  printf '\n\n' >&"${HELD[1]}"
  wait "$holder"
}

# A snapshot of $pid by its owner, $id, which root copies to the host under this name, with what host.sh must know.
keep() { # NAME [OPTION-OF-compare...]
  local name=$1 before after spooled
  shift
  before=$("$RIG/held" now)
  as "$owner" csight snapshot --no-wait --json --pid "$pid" >said 2>&1 || { note <said; return 1; }
  after=$("$RIG/held" now)
  id=$(sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' said | head -n 1)
  spooled=/var/lib/csight/spool/$id
  [ "$id" ] && [ -d "$spooled" ] || return 1
  kept=$OUT/$name frozen=$before:$after
  mkdir "$kept" && cp "$spooled"/{snapshot.json,trace.perf.data} "$kept/" || return 1
  [ ! -d "$spooled/code" ] || cp -r "$spooled/code" "$kept/" || return 1
  echo "-p $pid ${begun:+-a $begun} -t $frozen $*" >"$kept/how"
}

# Whether the elements in `decoded` are what ran; beside a load, a part of it if they have gaps that are reported as loss.
compares() { # OPTION-OF-compare... LOG [TID]
  local status=0
  "$RIG/compare" "$@" <decoded >compared || status=$?
  if [ $status -ne 0 ] && [ "$LOAD" -gt 0 ] && grep -Eq ' no-sync (truncated|lost)' decoded; then
    echo "may lack what is reported as lost" | note
    status=0
    "$RIG/compare" -g "$@" <decoded >compared || status=$?
  fi
  note <compared
  return $status
}

exact_here() { # the last one that was kept
  csight decode -q --to elements --by-thread "$kept" >decoded 2>errors || { note <errors; return 1; }
  compares -p "$pid" ${begun:+-a "$begun"} -t "$frozen" "$OUT"
}

# What runs while it is traced is logged: not too much of it.
now_and_then() { # PID...
  while kill -CONT "$@"; do
    sleep 0.1
    kill -STOP "$@"
    sleep 0.3
  done
} 2>/dev/null
