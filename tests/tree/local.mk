# SPDX-License-Identifier: MIT
TESTS += tests/tree/tree.test
EXTRA_DIST += tests/tree/tree.test tests/tree/lint tests/tree/subjects
