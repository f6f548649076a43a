# tests of engine/wire, engine/cache and engine/sched
ENGINE_TESTS = %D%/test_frame %D%/test_client_kept %D%/test_status %D%/test_sampler %D%/test_sampler_rules %D%/test_stop \
	%D%/test_block_pool %D%/test_prefix_index %D%/test_scheduler %D%/test_scheduler_stops %D%/test_prefix_reuse %D%/test_engine %D%/test_engine_faults %D%/test_inbox \
	%D%/test_stats %D%/test_prefill_budget %D%/test_stream_jobs %D%/test_slot_turns %D%/test_fair_queue %D%/test_backend_select %D%/test_monitor %D%/test_engine_walls \
	%D%/test_speculation %D%/test_speculation_models %D%/test_draft_choice %D%/test_draft_worth %D%/test_draft_load %D%/test_interleaved_load %D%/test_lookup %D%/test_recall %D%/test_embedder %D%/test_embeddings \
	%D%/test_next_layer %D%/test_dflash
check_PROGRAMS += $(ENGINE_TESTS) %D%/engine_refusing
TESTS += $(ENGINE_TESTS)

%C%_test_frame_SOURCES = %D%/engine/test_frame.c
%C%_test_frame_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_client_kept_SOURCES = %D%/engine/test_client_kept.c
%C%_test_client_kept_LDFLAGS = -Wl,--wrap=clock_ms
%C%_test_client_kept_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_status_SOURCES = %D%/engine/test_status.c
%C%_test_status_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
sampler_rig = %D%/engine/sampler_rig.c %D%/engine/sampler_rig.h
%C%_test_sampler_SOURCES = %D%/engine/test_sampler.c $(sampler_rig)
%C%_test_sampler_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_sampler_rules_SOURCES = %D%/engine/test_sampler_rules.c $(sampler_rig)
%C%_test_sampler_rules_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_stop_SOURCES = %D%/engine/test_stop.c
%C%_test_stop_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_block_pool_SOURCES = %D%/engine/test_block_pool.c
%C%_test_block_pool_LDADD = $(CACHE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
%C%_test_prefix_index_SOURCES = %D%/engine/test_prefix_index.c
%C%_test_prefix_index_LDADD = $(CACHE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
# over a backend that is a function of the history, so that a wrong block changes an answer
scheduler_rig = %D%/support/scheduler_rig.c %D%/support/scheduler_rig.h %D%/support/fake_backend.c %D%/support/fake_backend.h
%C%_test_scheduler_SOURCES = %D%/engine/test_scheduler.c $(scheduler_rig)
%C%_test_scheduler_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_scheduler_stops_SOURCES = %D%/engine/test_scheduler_stops.c $(scheduler_rig)
%C%_test_scheduler_stops_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_speculation_SOURCES = %D%/engine/test_speculation.c $(scheduler_rig)
%C%_test_speculation_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
drafter_folder = %D%/support/drafter_folder.c %D%/support/drafter_folder.h %D%/support/expert_models.c %D%/support/expert_models.h
draw_test = %D%/support/draw_test.c %D%/support/draw_test.h
%C%_test_next_layer_SOURCES = %D%/engine/test_next_layer.c $(drafter_folder)
%C%_test_next_layer_LDADD = $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_dflash_SOURCES = %D%/engine/test_dflash.c $(drafter_folder)
%C%_test_dflash_LDADD = $(DRAFT_LIBS) $(MEMORY_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_speculation_models_SOURCES = %D%/engine/test_speculation_models.c $(draw_test) $(scheduler_rig) $(drafter_folder)
%C%_test_speculation_models_LDADD = $(SCHED_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_draft_choice_SOURCES = %D%/engine/test_draft_choice.c
%C%_test_draft_choice_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_draft_worth_SOURCES = %D%/engine/test_draft_worth.c
%C%_test_draft_worth_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_interleaved_load_SOURCES = %D%/cpu/test_interleaved_load.c %D%/support/expert_models.c %D%/support/expert_models.h
%C%_test_interleaved_load_LDADD = $(MEMORY_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_draft_load_SOURCES = %D%/engine/test_draft_load.c %D%/support/expert_models.c %D%/support/expert_models.h
%C%_test_draft_load_LDADD = $(DRAFT_LIBS) $(MEMORY_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_embedder_SOURCES = %D%/engine/test_embedder.c
%C%_test_embedder_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_embeddings_SOURCES = %D%/engine/test_embeddings.c
%C%_test_embeddings_LDADD = $(SCHED_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_lookup_SOURCES = %D%/engine/test_lookup.c
%C%_test_lookup_LDADD = $(DRAFT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
%C%_test_recall_SOURCES = %D%/engine/test_recall.c
%C%_test_recall_LDADD = $(DRAFT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS)
%C%_test_prefix_reuse_SOURCES = %D%/engine/test_prefix_reuse.c $(scheduler_rig)
%C%_test_prefix_reuse_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
# over the real program ./sluice-engine
engine_rig = %D%/engine/engine_rig.c %D%/engine/engine_rig.h %D%/engine/engine_process.c %D%/engine/engine_process.h %D%/support/process_cpu.c %D%/support/process_cpu.h
%C%_test_engine_SOURCES = %D%/engine/test_engine.c $(engine_rig)
%C%_test_engine_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_engine_faults_SOURCES = %D%/engine/test_engine_faults.c $(engine_rig)
%C%_test_engine_faults_LDADD = $(WIRE_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_engine_walls_SOURCES = %D%/engine/test_engine_walls.c %D%/support/confined.c %D%/support/confined.h %D%/support/sanitized.h
%C%_test_engine_walls_LDADD = $(CONFINE_LIBS) $(CMOCKA_LIBS)
%C%_test_inbox_SOURCES = %D%/engine/test_inbox.c %D%/support/patience.h
%C%_test_inbox_LDADD = $(SCHED_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_stats_SOURCES = %D%/engine/test_stats.c
%C%_test_stats_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_prefill_budget_SOURCES = %D%/engine/test_prefill_budget.c
%C%_test_prefill_budget_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_stream_jobs_SOURCES = %D%/engine/test_stream_jobs.c $(scheduler_rig) %D%/support/expert_models.c %D%/support/expert_models.h
%C%_test_stream_jobs_LDADD = $(SCHED_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_slot_turns_SOURCES = %D%/engine/test_slot_turns.c $(scheduler_rig) %D%/support/expert_models.c %D%/support/expert_models.h
%C%_test_slot_turns_LDADD = $(SCHED_LIBS) $(CPU_LIBS) $(EXPERTS_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_fair_queue_SOURCES = %D%/engine/test_fair_queue.c
%C%_test_fair_queue_LDADD = $(SCHED_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
%C%_test_monitor_SOURCES = %D%/engine/test_monitor.c %D%/support/expert_models.c %D%/support/expert_models.h
%C%_test_monitor_LDADD = $(SCHED_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
# the engine over a GPU that refuses every model
%C%_engine_refusing_SOURCES = engine/main.c %D%/engine/refusing_vulkan.c
%C%_engine_refusing_LDADD = $(SCHED_LIBS) libsluice-backend.a $(CPU_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) -lm
%C%_test_backend_select_SOURCES = %D%/engine/test_backend_select.c %D%/engine/refusing_vulkan.c %D%/engine/engine_process.c %D%/engine/engine_process.h
%C%_test_backend_select_LDADD = libsluice-backend.a $(WIRE_LIBS) $(CPU_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm
