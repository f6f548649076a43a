# the seam between scheduling and arithmetic, and the choice of who computes
noinst_LIBRARIES += libsluice-backend.a
libsluice_backend_a_SOURCES = \
	%D%/backend.h \
	%D%/backend_select.c \
	%D%/expert_rows.h
