# how a program of the server locks itself in; only what enters the walls is linked with libseccomp
noinst_LIBRARIES += libsluice-confine.a
libsluice_confine_a_SOURCES = \
	%D%/call_filter.c %D%/call_filter.h \
	%D%/confine.c %D%/confine.h \
	%D%/engine_walls.c %D%/engine_walls.h \
	%D%/landlock.c %D%/landlock.h
CONFINE_LIBS = libsluice-confine.a $(BASE_LIBS) $(SECCOMP_LIBS)
