# expert records: where they lie, a cache of them in memory
noinst_LIBRARIES += libsluice-experts.a
libsluice_experts_a_SOURCES = \
	%D%/expert_pack.h %D%/pack_format.h %D%/pack_layout.c %D%/pack_write.c \
	%D%/expert_layout.c %D%/expert_layout.h
EXPERTS_LIBS = libsluice-experts.a
