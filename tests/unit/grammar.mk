# tests of engine/grammar
GRAMMAR_TESTS = %D%/test_grammar %D%/test_constrained %D%/test_slow_masks
check_PROGRAMS += $(GRAMMAR_TESTS) %D%/grammar_walk
TESTS += $(GRAMMAR_TESTS)
GRAMMAR_TEST_LIBS = $(GRAMMAR_LIBS) $(TEXT_LIBS) $(BASE_LIBS) -lm

%C%_test_grammar_SOURCES = %D%/grammar/test_grammar.c
%C%_test_grammar_LDADD = $(GRAMMAR_TEST_LIBS) $(CMOCKA_LIBS)
%C%_test_constrained_SOURCES = %D%/grammar/test_constrained.c %D%/support/scheduler_rig.c %D%/support/scheduler_rig.h %D%/support/fake_backend.c %D%/support/fake_backend.h
%C%_test_constrained_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_slow_masks_SOURCES = %D%/grammar/test_slow_masks.c %D%/support/scheduler_rig.c %D%/support/scheduler_rig.h %D%/support/fake_backend.c %D%/support/fake_backend.h
%C%_test_slow_masks_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
# random walks through grammars, for tests/grammar/*.test.mjs
%C%_grammar_walk_SOURCES = %D%/grammar/grammar_walk.c
%C%_grammar_walk_LDADD = $(GRAMMAR_TEST_LIBS)
