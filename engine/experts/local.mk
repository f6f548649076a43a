# expert records: where they lie, packed sidecars, a cache of them in memory
noinst_LIBRARIES += libsluice-experts.a
libsluice_experts_a_SOURCES = \
	%D%/disk_probe.c %D%/disk_probe.h %D%/expert_ahead.c %D%/expert_eviction.c %D%/expert_eviction.h %D%/expert_held.c %D%/expert_history.c %D%/expert_history.h %D%/expert_layout.c %D%/expert_layout.h \
	%D%/expert_pack.h %D%/expert_reader.c %D%/expert_reader.h %D%/expert_reader_internal.h \
	%D%/expert_reader_threads.c %D%/expert_reader_uring.c %D%/expert_session.c %D%/expert_slots.c \
	%D%/expert_slots.h %D%/expert_store.c %D%/expert_store.h %D%/expert_store_internal.h %D%/miss_choice.c %D%/miss_choice.h %D%/owned_weights.c \
	%D%/owned_weights.h %D%/pack_format.h %D%/pack_layout.c %D%/pack_write.c %D%/rates_file.c %D%/rates_file.h %D%/streaming.c %D%/streaming.h
EXPERTS_LIBS = libsluice-experts.a $(URING_LIBS) -lm
