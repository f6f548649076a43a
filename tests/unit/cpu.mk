# tests of engine/cpu
CPU_TESTS = %D%/test_cpu_kernels %D%/test_cpu_interleave %D%/test_cpu_extremes %D%/test_cpu_interleaved_tiles %D%/test_cpu_kv %D%/test_cpu_delta %D%/test_cpu_ops %D%/test_cpu_backend %D%/test_cpu_routing %D%/test_cpu_wanted
check_PROGRAMS += $(CPU_TESTS)
TESTS += $(CPU_TESTS)
CPU_TEST_LIBS = $(CPU_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm

%C%_test_cpu_kernels_SOURCES = %D%/cpu/test_cpu_kernels.c %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_cpu_kernels_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_interleave_SOURCES = %D%/cpu/test_cpu_interleave.c %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/expert_models.c %D%/support/expert_models.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_cpu_interleave_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_extremes_SOURCES = %D%/cpu/test_cpu_extremes.c %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_cpu_extremes_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_interleaved_tiles_SOURCES = %D%/cpu/test_cpu_interleaved_tiles.c %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_cpu_interleaved_tiles_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_kv_SOURCES = %D%/cpu/test_cpu_kv.c %D%/support/guarded.c %D%/support/guarded.h
%C%_test_cpu_kv_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_delta_SOURCES = %D%/cpu/test_cpu_delta.c %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_cpu_delta_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_ops_SOURCES = %D%/cpu/test_cpu_ops.c
%C%_test_cpu_ops_LDADD = $(CPU_TEST_LIBS)
cpu_backend_rig = %D%/cpu/cpu_backend_rig.c %D%/cpu/cpu_backend_rig.h
%C%_test_cpu_backend_SOURCES = %D%/cpu/test_cpu_backend.c $(cpu_backend_rig)
%C%_test_cpu_backend_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_routing_SOURCES = %D%/cpu/test_cpu_routing.c $(cpu_backend_rig)
%C%_test_cpu_routing_LDADD = $(CPU_TEST_LIBS)
%C%_test_cpu_wanted_SOURCES = %D%/cpu/test_cpu_wanted.c $(cpu_backend_rig)
%C%_test_cpu_wanted_LDADD = $(CPU_TEST_LIBS)
