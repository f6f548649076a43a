noinst_LIBRARIES += libsluice-cache.a
libsluice_cache_a_SOURCES = \
	%D%/checkpoints.c %D%/checkpoints.h %D%/block_pool.c %D%/block_pool.h %D%/prefix_index.c %D%/prefix_index.h \
	%D%/disk/record_feed.c %D%/disk/record_feed.h
CACHE_LIBS = libsluice-cache.a
