# nginx's templates and the systemd units

nginxdir = $(pkgdatadir)/nginx
dist_nginx_DATA = %D%/server.conf.in %D%/up.conf.in %D%/headers.conf %D%/hosts.conf %D%/fastcgi.conf %D%/mime.types
nodist_nginx_DATA = %D%/server.conf
sitedir = $(sysconfdir)/nginx/sites-available
nodist_site_DATA = %D%/sluice
unitdir = $(prefix)/lib/systemd/system
nodist_unit_DATA = %D%/sluice.service %D%/sluice-engine.service %D%/sluice-worker@.service
sysusersdir = $(prefix)/lib/sysusers.d
nodist_sysusers_DATA = %D%/sluice.conf
EXTRA_DIST += %D%/sysusers.conf %D%/site.conf.in %D%/sluice.service.in %D%/sluice-engine.service.in %D%/sluice-worker@.service.in
CLEANFILES += $(nodist_nginx_DATA) $(nodist_site_DATA) $(nodist_unit_DATA) $(nodist_sysusers_DATA)

fill_in = $(AM_V_GEN)$(MKDIR_P) $(@D) && sed -e 's|@PKGDATADIR@|$(pkgdatadir)|g' -e 's|@LIBEXECDIR@|$(libexecdir)|g' -e 's|@BINDIR@|$(bindir)|g' \
	-e 's|@SYSCONFDIR@|$(sysconfdir)|g' -e 's|@WEB@|$(pkgdatadir)/web|g' \
	-e 's|@STREAM_SOCKET@|/run/sluice/stream.sock|g' -e 's|@SHORT_SOCKET@|/run/sluice/short.sock|g' \
	-e 's|@STATUS_SOCKET@|/run/sluice/status.sock|g' \
	-e 's|@HEADERS@|$(pkgdatadir)/nginx/headers.conf|g' -e 's|@FASTCGI@|$(pkgdatadir)/nginx/fastcgi.conf|g'

%D%/server.conf: %D%/server.conf.in Makefile
	$(fill_in) $(srcdir)/nginx/server.conf.in >$@
%D%/sluice: %D%/site.conf.in Makefile
	$(fill_in) $(srcdir)/nginx/site.conf.in >$@
%D%/sluice.conf: %D%/sysusers.conf Makefile
	$(fill_in) $(srcdir)/nginx/sysusers.conf >$@
%D%/sluice.service: %D%/sluice.service.in Makefile
	$(fill_in) $(srcdir)/nginx/sluice.service.in >$@
%D%/sluice-engine.service: %D%/sluice-engine.service.in Makefile
	$(fill_in) $(srcdir)/nginx/sluice-engine.service.in >$@
%D%/sluice-worker@.service: %D%/sluice-worker@.service.in Makefile
	$(fill_in) $(srcdir)/nginx/sluice-worker@.service.in >$@
