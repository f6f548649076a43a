noinst_LIBRARIES += libsluice-text.a
libsluice_text_a_SOURCES = \
	%D%/utf8.c %D%/utf8.h %D%/unicode_table.c \
	%D%/vocab.c %D%/vocab.h %D%/vocab_image.h %D%/vocab_source.h \
	%D%/vocab_build.c %D%/vocab_json.c %D%/json_cursor.c %D%/json_cursor.h \
	%D%/tokenizer.c %D%/tokenizer.h %D%/tokenizer_added.c %D%/tokenizer_added.h \
	%D%/tokenizer_normal.c %D%/tokenizer_normal.h \
	%D%/pretokenize.c %D%/pretokenize.h %D%/pretokenize_pcre.c %D%/pretokenize_pcre.h \
	%D%/pretokenize_pattern.c %D%/pretokenize_pattern.h %D%/vocab_pre.c \
	%D%/bpe.c %D%/bpe.h %D%/detokenizer.c %D%/detokenizer.h \
	%D%/gguf_vocab.c %D%/gguf_vocab.h %D%/text_gguf.c %D%/text_gguf.h %D%/text_model.c %D%/text_model.h
TEXT_LIBS = libsluice-text.a libsluice-model.a $(PCRE2_LIBS) $(UTF8PROC_LIBS)
EXTRA_DIST += %D%/unicode_table.py
libsluice_text_a_SOURCES += \
	%D%/jinja.c %D%/jinja.h %D%/rendered.h %D%/jinja_ast.h %D%/jinja_run.h %D%/jinja_builtin.h %D%/jinja_text.h %D%/jinja_parse.h \
	%D%/jinja_lexer.c %D%/jinja_parser.c %D%/jinja_expression.c %D%/jinja_literal.c \
	%D%/jinja_eval.c %D%/jinja_exec.c %D%/jinja_call.c %D%/jinja_access.c %D%/jinja_operators.c \
	%D%/jinja_value.c %D%/jinja_value.h %D%/jinja_compare.c %D%/jinja_print.c \
	%D%/jinja_builder.c %D%/jinja_builder.h %D%/jinja_strings.c %D%/jinja_format.c %D%/jinja_json.c \
	%D%/jinja_filters.c %D%/jinja_filters_text.c %D%/jinja_tests.c \
	%D%/jinja_string_methods.c %D%/jinja_containers.c \
	%D%/chat_template.c %D%/chat_template.h %D%/chat_template_internal.h \
	%D%/chat_template_probe.c %D%/chat_generic_tools.c %D%/chat_template_messages.c \
	%D%/content_gate.c %D%/content_gate.h \
	%D%/chat_parser.c %D%/chat_parser.h %D%/parse_format.c %D%/parse_format.h \
	%D%/parse_json.c %D%/parse_json.h %D%/parse_call.c %D%/parse_live.c %D%/parse_arguments.c \
	%D%/parse_xml.c %D%/parse_section.c %D%/parse_harmony.c
