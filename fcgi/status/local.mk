# what the engine says of itself

libsluice_fcgi_a_SOURCES += \
	%D%/engine_status.c %D%/engine_status.h \
	%D%/history.c %D%/history.h \
	%D%/history_sample.c %D%/history_sample.h
