# tests of engine/grammar
GRAMMAR_TESTS = %D%/test_grammar
check_PROGRAMS += $(GRAMMAR_TESTS) %D%/grammar_walk
TESTS += $(GRAMMAR_TESTS)
GRAMMAR_TEST_LIBS = $(GRAMMAR_LIBS) $(TEXT_LIBS) $(BASE_LIBS) -lm

%C%_test_grammar_SOURCES = %D%/test_grammar.c
%C%_test_grammar_LDADD = $(GRAMMAR_TEST_LIBS) $(CMOCKA_LIBS)
# random walks through grammars, for tests/grammar/*.test.mjs
%C%_grammar_walk_SOURCES = %D%/grammar_walk.c
%C%_grammar_walk_LDADD = $(GRAMMAR_TEST_LIBS)
