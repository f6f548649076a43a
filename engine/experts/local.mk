# expert records: where they lie, packed sidecars, a cache of them in memory
noinst_LIBRARIES += libsluice-experts.a
libsluice_experts_a_SOURCES = \
	%D%/cache/expert_prefetch.c \
	%D%/cache/expert_device_share.c \
	%D%/cache/expert_session.c \
	%D%/cache/expert_slots.c %D%/cache/expert_slots.h \
	%D%/cache/expert_arrival.c \
	%D%/cache/expert_cache.c %D%/cache/expert_cache.h \
	%D%/cache/expert_cache_internal.h \
	%D%/disk_probe.c %D%/disk_probe.h \
	%D%/io/expert_reader.c %D%/io/expert_reader.h \
	%D%/io/expert_reader_internal.h \
	%D%/io/expert_reader_threads.c \
	%D%/io/expert_reader_uring.c \
	%D%/io/rates_file.c %D%/io/rates_file.h \
	%D%/owned_weights.c %D%/owned_weights.h \
	%D%/pack/expert_layout.c %D%/pack/expert_layout.h \
	%D%/pack/expert_pack.h \
	%D%/pack/pack_format.h \
	%D%/pack/pack_layout.c \
	%D%/pack/pack_write.c \
	%D%/policy/expert_eviction.c %D%/policy/expert_eviction.h \
	%D%/policy/expert_history.c %D%/policy/expert_history.h \
	%D%/policy/miss_policy.c %D%/policy/miss_policy.h \
	%D%/streaming.c %D%/streaming.h
EXPERTS_LIBS = libsluice-experts.a $(URING_LIBS) -lm
