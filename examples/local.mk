# SPDX-License-Identifier: MIT
# examples: programs for libcsight, built and run by tests/csight
EXTRA_DIST += examples/decode.c examples/decode.py examples/doctor.c examples/doctor.py examples/notes.c examples/notes.py examples/report.py examples/scope.cc examples/server.c examples/slowest.c examples/snapshot.c examples/watch.c
