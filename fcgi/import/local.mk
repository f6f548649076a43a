# conversations out of files

libsluice_fcgi_a_SOURCES += \
	%D%/api_import.c \
	%D%/chain.c %D%/chain.h \
	%D%/draft.c %D%/draft.h \
	%D%/draft_tree.c %D%/draft_tree.h \
	%D%/format_chatgpt.c \
	%D%/format_claude.c \
	%D%/format_librechat.c \
	%D%/format_llamacpp.c \
	%D%/format_openai.c \
	%D%/format_openwebui.c \
	%D%/format_sluice.c \
	%D%/formats.c %D%/formats.h \
	%D%/import.c %D%/import.h \
	%D%/import_internal.h \
	%D%/import_report.c \
	%D%/split.c %D%/split.h \
	%D%/zip_process.c %D%/zip_process.h \
	%D%/zip_read.c \
	%D%/zip_survey.c %D%/zip_survey.h
