# processes: the pools and what they share

libsluice_fcgi_a_SOURCES += \
	%D%/child.c %D%/child.h \
	%D%/guard.c %D%/guard.h \
	%D%/listen.c %D%/listen.h \
	%D%/pool.c %D%/pool.h \
	%D%/shared.c %D%/shared.h \
	%D%/shared_limit.c \
	%D%/state.h \
	%D%/worker.h
