# Ollama's API

libsluice_fcgi_a_SOURCES += \
	%D%/api_ollama.c \
	%D%/api_ollama_embed.c \
	%D%/api_ollama_models.c \
	%D%/api_ollama_pull.c \
	%D%/ollama.c %D%/ollama.h \
	%D%/ollama_facts.c \
	%D%/ollama_messages.c \
	%D%/ollama_options.c \
	%D%/ollama_request.c \
	%D%/ollama_view.c
