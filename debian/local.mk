# `make deb`: a Debian package of what the source folder holds, in deb/

EXTRA_DIST += %D%/README.Debian %D%/changelog %D%/control %D%/copyright %D%/engine.env %D%/rules %D%/sluice.env \
	%D%/sluice.install %D%/sluice.lintian-overrides %D%/sluice.postinst %D%/sluice.postrm %D%/source/format

# A copy, since debhelper writes into the sources. DEB_FLAGS: options of dpkg-buildpackage.
deb:
	rm -rf deb && $(MKDIR_P) deb/$(PACKAGE)-$(VERSION)
	cd $(top_srcdir) && git ls-files -co --exclude-standard -z | tar -c --ignore-failed-read --null -T - | \
	  tar -x -C $(abs_builddir)/deb/$(PACKAGE)-$(VERSION)
	cd deb/$(PACKAGE)-$(VERSION) && dpkg-buildpackage -b -us -uc $(DEB_FLAGS)
	rm -rf deb/$(PACKAGE)-$(VERSION)
	@ls -l deb/*.deb
.PHONY: deb
