# tests of what keeps prompts on disk: engine/cache/disk and its users in engine/sched; the rigs are engine.mk's
PROMPT_CACHE_TESTS = %D%/test_cache_feed %D%/test_disk_cache %D%/test_disk_rows %D%/test_prompt_disk %D%/test_prompt_exact %D%/test_engine_disk
check_PROGRAMS += $(PROMPT_CACHE_TESTS)
TESTS += $(PROMPT_CACHE_TESTS)

%C%_test_cache_feed_SOURCES = %D%/prompt_cache/test_cache_feed.c
%C%_test_cache_feed_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_disk_cache_SOURCES = %D%/prompt_cache/test_disk_cache.c %D%/prompt_cache/disk_rig.c %D%/prompt_cache/disk_rig.h
%C%_test_disk_cache_LDADD = $(CACHE_LIBS) $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_disk_rows_SOURCES = %D%/prompt_cache/test_disk_rows.c %D%/prompt_cache/disk_rig.c %D%/prompt_cache/disk_rig.h
%C%_test_disk_rows_LDADD = $(CACHE_LIBS) $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
prompt_rows = %D%/prompt_cache/prompt_rows.c %D%/prompt_cache/prompt_rows.h
%C%_test_prompt_disk_SOURCES = %D%/prompt_cache/test_prompt_disk.c $(prompt_rows) $(scheduler_rig)
%C%_test_prompt_disk_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_prompt_exact_SOURCES = %D%/prompt_cache/test_prompt_exact.c $(prompt_rows) $(scheduler_rig) %D%/support/expert_models.c %D%/support/expert_models.h
%C%_test_prompt_exact_LDADD = $(SCHED_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_engine_disk_SOURCES = %D%/prompt_cache/test_engine_disk.c $(engine_rig)
%C%_test_engine_disk_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
