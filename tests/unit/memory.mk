# tests of engine/memory
MEMORY_TESTS = %D%/test_machine %D%/test_memory_plan %D%/test_memory_estimate %D%/test_pressure %D%/test_sizing
check_PROGRAMS += $(MEMORY_TESTS)
TESTS += $(MEMORY_TESTS)
MEMORY_TEST_LIBS = $(MEMORY_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm

%C%_test_machine_SOURCES = %D%/memory/test_machine.c
%C%_test_machine_LDADD = $(MEMORY_TEST_LIBS)
memory_plan_rig = %D%/memory/memory_plan_rig.c %D%/memory/memory_plan_rig.h
%C%_test_memory_plan_SOURCES = %D%/memory/test_memory_plan.c $(memory_plan_rig)
%C%_test_memory_plan_LDADD = $(MEMORY_TEST_LIBS)
%C%_test_memory_estimate_SOURCES = %D%/memory/test_memory_estimate.c $(memory_plan_rig)
%C%_test_memory_estimate_LDADD = $(MEMORY_TEST_LIBS)
%C%_test_pressure_SOURCES = %D%/memory/test_pressure.c
%C%_test_pressure_LDADD = $(MEMORY_TEST_LIBS)
%C%_test_sizing_SOURCES = %D%/memory/test_sizing.c $(memory_plan_rig)
%C%_test_sizing_LDADD = $(MEMORY_TEST_LIBS)
