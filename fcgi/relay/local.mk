# the process that asks other servers for answers

libsluice_fcgi_a_SOURCES += \
	%D%/relay.c %D%/relay.h \
	%D%/relay_answer.c %D%/relay_answer.h \
	%D%/relay_anthropic.c \
	%D%/relay_call.c %D%/relay_call.h \
	%D%/relay_dialect.c %D%/relay_dialect.h \
	%D%/relay_handle.c %D%/relay_handle.h \
	%D%/relay_job.c %D%/relay_job.h \
	%D%/relay_ollama.c \
	%D%/relay_openai.c \
	%D%/relay_probe.c \
	%D%/relay_server.c \
	%D%/upstreams.c %D%/upstreams.h
