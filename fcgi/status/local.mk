# what the engine says of itself

libsluice_fcgi_a_SOURCES += \
	%D%/facts.c %D%/facts.h
