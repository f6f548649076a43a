# other servers that answer for us: what an admin sees and sets

libsluice_fcgi_a_SOURCES += \
	%D%/api_registry.c %D%/registry.h \
	%D%/api_upstreams.c \
	%D%/upstream_metrics.c %D%/upstream_metrics.h \
	%D%/upstream_status.c %D%/upstream_status.h \
	%D%/upstream_test.c %D%/upstream_test.h \
	%D%/upstream_url.c %D%/upstream_url.h
