# from a prompt to an answer

libsluice_fcgi_a_SOURCES += \
	%D%/answer_stream.c %D%/answer_stream.h \
	%D%/answer_view.c %D%/answer_view.h \
	%D%/cache_scope.c %D%/cache_scope.h \
	%D%/cache_usage.c %D%/cache_usage.h \
	%D%/constraint.c %D%/constraint.h \
	%D%/generation.c %D%/generation.h \
	%D%/inference.c %D%/inference.h \
	%D%/local/local_defaults.c %D%/local/local_defaults.h \
	%D%/local/local_gate.c %D%/local/local_gate.h \
	%D%/model_gate.c %D%/model_gate.h \
	%D%/model_name.c %D%/model_name.h \
	%D%/prompt.c %D%/prompt.h \
	%D%/reduced_top_k.c %D%/reduced_top_k.h \
	%D%/server_defaults.c \
	%D%/settings.c %D%/settings.h \
	%D%/settings_tokens.c \
	%D%/speculation_usage.c %D%/speculation_usage.h \
	%D%/stored_answer.c %D%/stored_answer.h \
	%D%/sealed_prompt.c %D%/sealed_prompt.h \
	%D%/stored_prompt.c %D%/stored_prompt.h \
	%D%/text_job.c %D%/text_job.h \
	%D%/usage.c %D%/usage.h \
	%D%/watch.c %D%/watch.h
