# OpenAI's API

libsluice_fcgi_a_SOURCES += \
	%D%/api_chat.c \
	%D%/api_completions.c \
	%D%/api_embeddings.c \
	%D%/api_models.c \
	%D%/api_rerank.c \
	%D%/api_text.c \
	%D%/api_tokenizer.c \
	%D%/chat_build.c %D%/chat_build.h \
	%D%/chat_cache.c \
	%D%/chat_check.c \
	%D%/chat_files.c %D%/chat_files.h \
	%D%/chat_job.c %D%/chat_job.h \
	%D%/chat_relay.c %D%/chat_relay.h \
	%D%/chat_reply.h \
	%D%/chat_prediction.c \
	%D%/chat_request.c %D%/chat_request.h \
	%D%/chat_stream.c \
	%D%/chat_thinking.c \
	%D%/chat_whole.c \
	%D%/completions.h \
	%D%/completions_relay.c \
	%D%/completions_request.c \
	%D%/completions_view.c \
	%D%/constraint_fields.c \
	%D%/fields.c \
	%D%/fields_foreign.c \
	%D%/model_object.c %D%/model_object.h \
	%D%/openai.c %D%/openai.h \
	%D%/parts.c %D%/parts.h
