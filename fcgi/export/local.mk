# conversations as files

libsluice_fcgi_a_SOURCES += \
	%D%/account.c %D%/account.h \
	%D%/api_export.c \
	%D%/archive.c \
	%D%/export.c %D%/export.h \
	%D%/export_internal.h \
	%D%/export_tree.c \
	%D%/format.h \
	%D%/format_html.c \
	%D%/format_json.c \
	%D%/format_jsonl.c \
	%D%/format_markdown.c \
	%D%/format_text.c \
	%D%/format_words.c \
	%D%/html_markdown.c \
	%D%/html_text.c %D%/html_text.h \
	%D%/markdown_source.c %D%/markdown_source.h \
	%D%/text_parts.c %D%/text_parts.h
