# conversations as files

libsluice_fcgi_a_SOURCES += \
	%D%/account.c %D%/account.h \
	%D%/api_export.c \
	%D%/archive.c \
	%D%/export.c %D%/export.h \
	%D%/format.h \
	%D%/html.c \
	%D%/html_markdown.c \
	%D%/html_text.c %D%/html_text.h \
	%D%/json.c \
	%D%/jsonl.c \
	%D%/markdown.c \
	%D%/markdown_source.c %D%/markdown_source.h \
	%D%/plain.c %D%/plain.h \
	%D%/run.h \
	%D%/text.c \
	%D%/tree.c \
	%D%/words.c \
	%D%/zip.c %D%/zip.h
