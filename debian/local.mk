# SPDX-License-Identifier: MIT
# debian: the packages. Their version is that of debian/changelog.
EXTRA_DIST += debian/changelog debian/control debian/copyright debian/rules debian/source/format debian/source/options \
	debian/csight.docs debian/csight.install debian/csight.lintian-overrides \
	debian/csight-emu.examples debian/csight-emu.install debian/csight-emu.lintian-overrides \
	debian/csightd.README.Debian debian/csightd.install debian/csightd.postrm debian/csightd.prerm debian/libcsight-dev.examples \
	debian/libcsight-dev.install debian/libcsight0.install debian/tests/control debian/tests/library debian/tests/snapshot

# Builds the packages of a copy of this tree, in deb/.
deb: distdir
	rm -rf deb
	$(MKDIR_P) deb
	mv $(distdir) deb/csight
	cd deb/csight && dpkg-buildpackage --build=binary --unsigned-changes --jobs-force=2
.PHONY: deb
