EXTRA_DIST += tests/tree/tree.test tests/tree/lint tests/tree/subjects
