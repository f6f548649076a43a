# Anthropic's API

libsluice_fcgi_a_SOURCES += \
	%D%/anthropic.c %D%/anthropic.h \
	%D%/api_messages.c \
	%D%/messages.h \
	%D%/messages_cache.c \
	%D%/messages_content.c %D%/messages_content.h \
	%D%/messages_request.c \
	%D%/messages_view.c
