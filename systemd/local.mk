# SPDX-License-Identifier: MIT
# systemd, etc
systemdsystemunit_DATA = systemd/csightd.service systemd/csightd.socket systemd/csight-keeper.service systemd/csight-keeper.socket \
	systemd/csight-decode@.service systemd/csight-decode.socket systemd/csight-opener.service systemd/csight-opener.socket \
	systemd/csight-kernel.service systemd/csight-kernel.socket \
	systemd/csight-runner@.service systemd/csight-runner.socket
sysusersdir = $(prefix)/lib/sysusers.d
tmpfilesdir = $(prefix)/lib/tmpfiles.d
catalogdir = $(prefix)/lib/systemd/catalog
dist_catalog_DATA = systemd/csightd.catalog
EXTRA_DIST += systemd/csight.tmpfiles systemd/csightd.socket systemd/csight-keeper.socket systemd/csight-decode.socket systemd/csight-opener.socket systemd/csight-kernel.socket systemd/csight-runner.socket systemd/csight.sysusers etc/csightd.conf.example
exampledir = $(docdir)
example_DATA = etc/csightd.conf.example

install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(sysusersdir)' '$(DESTDIR)$(tmpfilesdir)'
	$(INSTALL_DATA) $(srcdir)/systemd/csight.sysusers '$(DESTDIR)$(sysusersdir)/csight.conf'
	$(INSTALL_DATA) $(srcdir)/systemd/csight.tmpfiles '$(DESTDIR)$(tmpfilesdir)/csight.conf'

uninstall-local:
	rm -f '$(DESTDIR)$(sysusersdir)/csight.conf' '$(DESTDIR)$(tmpfilesdir)/csight.conf'
