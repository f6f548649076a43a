# benchmarks that are built by hand: make tests/bench/bench_vulkan
if VULKAN
EXTRA_PROGRAMS += %D%/bench_vulkan
%C%_bench_vulkan_SOURCES = %D%/bench_vulkan.c %D%/bench_model.c %D%/bench_model.h
%C%_bench_vulkan_LDADD = $(VULKAN_BACKEND_LIBS) $(MODEL_LIBS) $(BASE_LIBS) -lm
endif

# both ends of relay.mjs: make tests/bench/relay_peer
EXTRA_PROGRAMS += %D%/relay_peer
%C%_relay_peer_SOURCES = %D%/relay_peer.c

# drafts on models of any shape, which write recorded text: make tests/bench/drafts
EXTRA_PROGRAMS += %D%/drafts
%C%_drafts_SOURCES = %D%/drafts.c %D%/taped.c %D%/taped.h %D%/bench_model.c %D%/bench_model.h fcgi/cli/cli_run.c fcgi/cli/bench/routing.c
%C%_drafts_LDADD = $(SCHED_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) -lm

# the engine that tests/bench/taped.mjs runs: make tests/bench/taped_engine
EXTRA_PROGRAMS += %D%/taped_engine
%C%_taped_engine_SOURCES = %D%/taped_engine.c %D%/taped.c %D%/taped.h engine/main.c fcgi/cli/bench/routing.c
%C%_taped_engine_LDFLAGS = -Wl,--wrap=memory_load_open
%C%_taped_engine_LDADD = $(sluice_engine_LDADD)
