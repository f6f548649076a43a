# tests of engine/experts
EXPERTS_TESTS = %D%/test_expert_eviction %D%/test_expert_layout %D%/test_expert_pack %D%/test_cpu_stream %D%/test_expert_cache %D%/test_expert_learning %D%/test_disk_probe
check_PROGRAMS += $(EXPERTS_TESTS)
TESTS += $(EXPERTS_TESTS)
EXPERTS_TEST_LIBS = $(EXPERTS_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
expert_models = %D%/support/expert_models.c %D%/support/expert_models.h %D%/support/tiny_model.c %D%/support/tiny_model.h

# its own reader instead of the library's
%C%_test_disk_probe_SOURCES = %D%/experts/test_disk_probe.c
%C%_test_disk_probe_LDADD = $(EXPERTS_TEST_LIBS)
%C%_test_expert_eviction_SOURCES = %D%/experts/test_expert_eviction.c
%C%_test_expert_eviction_LDADD = $(EXPERTS_TEST_LIBS)
%C%_test_expert_layout_SOURCES = %D%/experts/test_expert_layout.c $(expert_models)
%C%_test_expert_layout_LDADD = $(EXPERTS_TEST_LIBS)
%C%_test_expert_pack_SOURCES = %D%/experts/test_expert_pack.c %D%/experts/expert_pack_check.c %D%/experts/expert_pack_check.h $(expert_models)
%C%_test_expert_pack_LDADD = $(EXPERTS_TEST_LIBS)
%C%_test_cpu_stream_SOURCES = %D%/experts/test_cpu_stream.c $(expert_models)
%C%_test_cpu_stream_LDADD = $(CPU_TEST_LIBS)
expert_cache_rig = %D%/experts/expert_cache_rig.c %D%/experts/expert_cache_rig.h $(expert_models)
%C%_test_expert_cache_SOURCES = %D%/experts/test_expert_cache.c $(expert_cache_rig)
%C%_test_expert_cache_LDADD = $(EXPERTS_TEST_LIBS)
%C%_test_expert_learning_SOURCES = %D%/experts/test_expert_learning.c $(expert_cache_rig)
%C%_test_expert_learning_LDADD = $(EXPERTS_TEST_LIBS)
