# tests of engine/wire, engine/cache and engine/sched
ENGINE_TESTS = %D%/test_frame %D%/test_status
check_PROGRAMS += $(ENGINE_TESTS)
TESTS += $(ENGINE_TESTS)

%C%_test_frame_SOURCES = %D%/test_frame.c
%C%_test_frame_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_status_SOURCES = %D%/test_status.c
%C%_test_status_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
