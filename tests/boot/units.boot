# SPDX-License-Identifier: MIT
# csightd as its units start it: what survives a restart, an upgrade, a crash and a hang. Python, run by guest.py.
import signal

succeeds("the unit starts and is ready", "systemctl", "start", "csightd")
ok("it is active", unit("csightd", "ActiveState") == "active")
for user in USERS:
    succeeds(f"{user} asks for its status", "csight", "status", user=user)


def restart(programs):
    run("systemctl", "restart", "csightd")


def kill_daemon(programs):
    old = main_pid()
    os.kill(old, signal.SIGKILL)
    until(lambda: main_pid() not in (0, old))


event("restart", 4, restart, strict=("kept", "history", "lost"))
event("kill -9 of csightd", 4, kill_daemon, strict=("kept", "history", "lost"))
event("upgrade by restart", 20, restart, strict=("kept", "history", "lost"))
