# the process that writes running answers

libsluice_fcgi_a_SOURCES += \
	%D%/recorder.c %D%/recorder.h \
	%D%/recorder_answer.c %D%/recorder_answer.h \
	%D%/recorder_house.c %D%/recorder_house.h
