# SPDX-License-Identifier: MIT
# man
dist_man_MANS = man/csight.1 man/csightd.8 man/csight-decode.8 man/csightd.conf.5 man/csight-formats.5 man/libcsight.3 man/csight.7
