# OpenAI's Responses API, its conversations and compaction

libsluice_fcgi_a_SOURCES += \
	%D%/api_openai_conversations.c \
	%D%/api_responses.c \
	%D%/responses.h \
	%D%/responses_chain.c \
	%D%/responses_compact.c \
	%D%/responses_compaction.c \
	%D%/responses_conversation.c \
	%D%/responses_items.c \
	%D%/responses_request.c \
	%D%/responses_stream.c \
	%D%/responses_truncate.c \
	%D%/responses_view.c
