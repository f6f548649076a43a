# the process that writes running answers

libsluice_fcgi_a_SOURCES += \
	%D%/db_maintenance.c %D%/db_maintenance.h \
	%D%/cache_follower.c %D%/cache_follower.h \
	%D%/recorder.c %D%/recorder.h \
	%D%/recorder_answer.c %D%/recorder_answer.h
