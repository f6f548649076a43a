noinst_LIBRARIES += libsluice-draft.a
libsluice_draft_a_SOURCES = \
	%D%/drafter.c %D%/drafter.h \
	%D%/lookup.c
DRAFT_LIBS = libsluice-draft.a
