# SPDX-License-Identifier: MIT
# examples: programs for libcsight, built and run by tests/csight/libcsight.test
EXTRA_DIST += examples/snapshot.c
