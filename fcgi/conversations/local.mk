# the page's conversations

libsluice_fcgi_a_SOURCES += \
	%D%/api_changes.c \
	%D%/api_conversations.c \
	%D%/api_conversations_bulk.c \
	%D%/api_conversations_defaults.c \
	%D%/api_conversations_list.c \
	%D%/api_conversations_post.c \
	%D%/api_conversations_stream.c \
	%D%/api_conversations_tree.c \
	%D%/api_conversations_window.c \
	%D%/api_library.c \
	%D%/api_prompt_cache.c \
	%D%/api_shares.c \
	%D%/conversation.h \
	%D%/conversation_message.c \
	%D%/conversation_prompt.c \
	%D%/conversation_results.c \
	%D%/conversation_resume.c \
	%D%/conversation_settings.c \
	%D%/conversation_title.c \
	%D%/title.c %D%/title.h
