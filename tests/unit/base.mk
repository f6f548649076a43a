# tests of engine/base
BASE_TESTS = %D%/test_json %D%/test_base %D%/test_log_ring
check_PROGRAMS += $(BASE_TESTS)
TESTS += $(BASE_TESTS)

%C%_test_json_SOURCES = %D%/base/test_json.c
%C%_test_json_LDADD = $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_base_SOURCES = %D%/base/test_base.c
%C%_test_base_LDADD = $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_log_ring_SOURCES = %D%/base/test_log_ring.c
%C%_test_log_ring_LDADD = $(BASE_LIBS) $(CMOCKA_LIBS) -lm
