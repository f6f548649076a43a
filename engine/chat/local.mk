# messages to a prompt by the model's template; answers to text, reasoning and tool calls
noinst_LIBRARIES += libsluice-chat.a
libsluice_chat_a_SOURCES = \
	%D%/chat_generic_tools.c \
	%D%/chat_parser.c %D%/chat_parser.h \
	%D%/chat_template.c %D%/chat_template.h \
	%D%/chat_template_internal.h \
	%D%/chat_template_messages.c \
	%D%/chat_template_probe.c \
	%D%/content_gate.c %D%/content_gate.h \
	%D%/parse_arguments.c \
	%D%/parse_call.c \
	%D%/parse_format.c %D%/parse_format.h \
	%D%/parse_harmony.c \
	%D%/parse_json.c %D%/parse_json.h \
	%D%/parse_relayed.c \
	%D%/parse_stream.c \
	%D%/parse_section.c \
	%D%/parse_xml.c
CHAT_LIBS = libsluice-chat.a $(JINJA_LIBS)
