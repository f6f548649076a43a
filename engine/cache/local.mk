noinst_LIBRARIES += libsluice-cache.a
libsluice_cache_a_SOURCES = \
	%D%/checkpoints.c %D%/checkpoints.h %D%/block_pool.c %D%/block_pool.h %D%/prefix_index.c %D%/prefix_index.h \
	%D%/disk/disk_cache.c %D%/disk/disk_cache.h %D%/disk/disk_cache_internal.h \
	%D%/disk/disk_reader.c %D%/disk/disk_requests.c %D%/disk/disk_writer.c \
	%D%/disk/disk_tier.c %D%/disk/disk_tier.h %D%/disk/record_form.c %D%/disk/record_form.h \
	%D%/disk/record_feed.c %D%/disk/record_feed.h \
	%D%/disk/record_ram.c %D%/disk/record_ram.h \
	%D%/disk/record_seal.c %D%/disk/record_seal.h \
	%D%/disk/record_table.c %D%/disk/record_table.h \
	%D%/disk/segments.c %D%/disk/segments.h \
	%D%/disk/staging.c %D%/disk/staging.h
CACHE_LIBS = libsluice-cache.a $(SODIUM_LIBS)
