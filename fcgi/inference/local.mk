# from a prompt to an answer

libsluice_fcgi_a_SOURCES += \
	%D%/answer.c %D%/answer.h \
	%D%/constraint.c %D%/constraint.h \
	%D%/generation.c %D%/generation.h \
	%D%/inference.c %D%/inference.h \
	%D%/lossy.c %D%/lossy.h \
	%D%/model_gate.c %D%/model_gate.h \
	%D%/model_name.c %D%/model_name.h \
	%D%/prompt.c %D%/prompt.h \
	%D%/server_defaults.c \
	%D%/settings.c %D%/settings.h \
	%D%/usage.c %D%/usage.h \
	%D%/watch.c %D%/watch.h
