# files of engine/cpu: plain C in one library; each instruction set in its own, with its own flags, so that no
# vector instruction gets into code that runs everywhere
noinst_LIBRARIES += libsluice-cpu.a
libsluice_cpu_a_SOURCES = \
	%D%/attention.c %D%/cpu_backend.c %D%/bandwidth.c %D%/bandwidth.h %D%/block.c %D%/block.h \
	%D%/delta_net.c %D%/delta_simd.h %D%/expert_lists.c %D%/expert_lists.h %D%/expert_rows.c %D%/features.c %D%/ffn.c %D%/ffn.h %D%/ffn_groups.c %D%/ffn_groups.h %D%/ffn_stream.c %D%/ffn_stream.h %D%/head.c %D%/head.h %D%/kernels.h \
	%D%/kernels_generic.c %D%/kv_layout.h %D%/layout.c %D%/layout.h %D%/matmul.c \
	%D%/matmul.h %D%/mixer.h %D%/open.h %D%/panel.c %D%/panel.h %D%/placer.h \
	%D%/rope.c %D%/rope.h %D%/router.c %D%/router.h %D%/speed.c %D%/speed.h %D%/step.c %D%/step.h \
	%D%/thread_tuner.c %D%/thread_tuner.h %D%/cpu_worker.h
libsluice_cpu_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS)
CPU_LIBS = libsluice-cpu.a

if X86_64
libsluice_cpu_a_CPPFLAGS = $(AM_CPPFLAGS) -DSLUICE_CPU_X86
noinst_LIBRARIES += libsluice-cpu-avx2.a libsluice-cpu-avx512.a libsluice-cpu-avx512vnni.a
cpu_simd_headers = %D%/kernels_simd.h %D%/ops_simd.h %D%/tile_core.h %D%/tile_formats.h %D%/tile_one.h %D%/tile_rare.h
CPU_AVX512 = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq
libsluice_cpu_avx2_a_SOURCES = %D%/kernels_avx2.c %D%/simd_avx2.h $(cpu_simd_headers)
libsluice_cpu_avx2_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) -mavx2 -mfma -mf16c
libsluice_cpu_avx512_a_SOURCES = %D%/kernels_avx512.c %D%/simd_avx512.h $(cpu_simd_headers)
libsluice_cpu_avx512_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(CPU_AVX512)
libsluice_cpu_avx512vnni_a_SOURCES = %D%/kernels_avx512vnni.c %D%/simd_avx512.h $(cpu_simd_headers)
libsluice_cpu_avx512vnni_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(CPU_AVX512) -mavx512vnni
# they use the plain C library as well as it them
CPU_LIBS += libsluice-cpu-avx2.a libsluice-cpu-avx512.a libsluice-cpu-avx512vnni.a libsluice-cpu.a
endif
CPU_LIBS += $(EXPERTS_LIBS) -lm
