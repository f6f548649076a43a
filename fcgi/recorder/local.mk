# the process that writes running answers

libsluice_fcgi_a_SOURCES += \
	%D%/audit_ship.c %D%/audit_ship.h \
	%D%/audit_sink.c %D%/audit_sink.h \
	%D%/audit_suppressed.c %D%/audit_suppressed.h \
	%D%/db_maintenance.c %D%/db_maintenance.h \
	%D%/cache_follower.c %D%/cache_follower.h \
	%D%/cache_followers.c %D%/cache_followers.h \
	%D%/passage_follower.c %D%/passage_follower.h \
	%D%/recorder.c %D%/recorder.h \
	%D%/recorder_answer.c %D%/recorder_answer.h
