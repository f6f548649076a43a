noinst_LIBRARIES += libsluice-draft.a
libsluice_draft_a_SOURCES = \
	%D%/draft_load.c %D%/draft_load.h %D%/draft_plan.c %D%/draft_plan.h \
	%D%/draft_model.c %D%/draft_model.h %D%/draft_model_state.h \
	%D%/draft_seat.c %D%/dflash.c \
	%D%/drafter.c %D%/drafter.h \
	%D%/forced.c \
	%D%/lookup.c \
	%D%/recall.c %D%/recall.h
DRAFT_LIBS = libsluice-draft.a
