# SPDX-License-Identifier: MIT
# examples: programs for libcsight, built and run by tests/csight
EXTRA_DIST += examples/slowest.c examples/snapshot.c
