noinst_LIBRARIES += libsluice-grammar.a
libsluice_grammar_a_SOURCES = \
	%D%/program.c %D%/program.h %D%/builder.c %D%/builder.h %D%/builder_state.h %D%/emit.c %D%/emit.h %D%/emit_class.c \
	%D%/gbnf.c %D%/gbnf.h %D%/regex.c %D%/regex.h \
	%D%/json_schema.c %D%/json_schema.h %D%/schema_internal.h %D%/schema_keywords.c %D%/schema_object.c %D%/schema_array.c \
	%D%/schema_string.c %D%/schema_number.c %D%/schema_merge.c %D%/schema_value.c \
	%D%/token_trie.c %D%/token_trie.h %D%/automaton.c %D%/automaton.h %D%/grammar.c %D%/grammar.h %D%/grammar_internal.h \
	%D%/masks.c %D%/mask_maker.c \
	%D%/answer_grammar.c %D%/answer_grammar.h %D%/call_values.c %D%/call_values.h \
	%D%/expr_without.c %D%/expr_without.h
GRAMMAR_LIBS = libsluice-grammar.a
