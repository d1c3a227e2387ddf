# SPDX-License-Identifier: MIT
client_tests = tests/client/client.test tests/client/run.test tests/client/doctor.test tests/client/report.test \
	tests/client/open.test tests/client/hunt.test tests/client/images.test
TESTS += $(client_tests)
EXTRA_DIST += $(client_tests) tests/client/open-chromium
