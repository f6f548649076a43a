# tests of fcgi/cli's parts; the commands themselves are tested in tests/cli
CLI_TESTS = %D%/test_routing
check_PROGRAMS += $(CLI_TESTS)
TESTS += $(CLI_TESTS)

%C%_test_routing_SOURCES = %D%/cli/test_routing.c fcgi/cli/bench/routing.c fcgi/cli/bench/routing.h
%C%_test_routing_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
