# benchmarks that are built by hand: make tests/bench/bench_vulkan
if VULKAN
EXTRA_PROGRAMS += %D%/bench_vulkan
%C%_bench_vulkan_SOURCES = %D%/bench_vulkan.c %D%/bench_model.c %D%/bench_model.h
%C%_bench_vulkan_LDADD = $(VULKAN_BACKEND_LIBS) $(MODEL_LIBS) $(BASE_LIBS) -lm
endif

# both ends of relay.mjs: make tests/bench/relay_peer
EXTRA_PROGRAMS += %D%/relay_peer
%C%_relay_peer_SOURCES = %D%/relay_peer.c
