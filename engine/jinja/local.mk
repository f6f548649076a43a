# the language of chat templates
noinst_LIBRARIES += libsluice-jinja.a
libsluice_jinja_a_SOURCES = \
	%D%/jinja.c %D%/jinja.h \
	%D%/jinja_access.c \
	%D%/jinja_ast.h \
	%D%/jinja_builder.c %D%/jinja_builder.h \
	%D%/jinja_builtin.h \
	%D%/jinja_call.c \
	%D%/jinja_compare.c \
	%D%/jinja_compile.c \
	%D%/jinja_containers.c \
	%D%/jinja_eval.c \
	%D%/jinja_exec.c \
	%D%/jinja_expression.c \
	%D%/jinja_filters.c \
	%D%/jinja_filters_number.c \
	%D%/jinja_filters_order.c \
	%D%/jinja_filters_text.c \
	%D%/jinja_format.c %D%/jinja_format.h \
	%D%/jinja_format_braces.c \
	%D%/jinja_format_percent.c \
	%D%/jinja_json.c \
	%D%/jinja_lexer.c \
	%D%/jinja_literal.c \
	%D%/jinja_operators.c \
	%D%/jinja_parse.c %D%/jinja_parse.h \
	%D%/jinja_postfix.c \
	%D%/jinja_print.c \
	%D%/jinja_run.h \
	%D%/jinja_statement.c \
	%D%/jinja_string_checks.c \
	%D%/jinja_string_methods.c \
	%D%/jinja_strings.c \
	%D%/jinja_tests.c \
	%D%/jinja_text.h \
	%D%/jinja_value.c %D%/jinja_value.h \
	%D%/rendered.h
JINJA_LIBS = libsluice-jinja.a
