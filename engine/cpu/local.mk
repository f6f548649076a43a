# files of engine/cpu: plain C in one library; each instruction set in its own, with its own flags, so that no
# vector instruction gets into code that runs everywhere
noinst_LIBRARIES += libsluice-cpu.a
libsluice_cpu_a_SOURCES = \
	%D%/attention.c %D%/cpu_backend.c %D%/measure/bandwidth.c %D%/measure/bandwidth.h %D%/panel/block.c %D%/panel/block.h \
	%D%/delta_net.c %D%/kernels/delta_simd.h %D%/expert_lists.c %D%/expert_lists.h %D%/expert_rows.c %D%/kernels/features.c %D%/ffn.c %D%/ffn.h %D%/ffn_groups.c %D%/ffn_groups.h %D%/ffn_stream.c %D%/ffn_stream.h %D%/head.c %D%/head.h %D%/interleave/interleave.c %D%/interleave/interleave.h %D%/interleave/interleaved_weights.c %D%/interleave/interleaved_weights.h %D%/joint.c %D%/joint.h %D%/context.c %D%/context.h %D%/kernels/kernels.h \
	%D%/kernels/kernels_generic.c %D%/kernels/kv_layout.h %D%/kernels/kv_pack.c %D%/kernels/kv_pack.h %D%/layout.c %D%/layout.h %D%/matmul.c \
	%D%/matmul.h %D%/mixer.h %D%/open.h %D%/panel/panel.c %D%/panel/panel.h %D%/placer.h \
	%D%/residual_norm.c %D%/residual_norm.h %D%/rope.c %D%/rope.h %D%/router.c %D%/router.h %D%/measure/speed.c %D%/measure/speed.h %D%/step.c %D%/step.h %D%/cpu_content.c %D%/cpu_content.h \
	%D%/thread_tuner.c %D%/thread_tuner.h %D%/cpu_worker.h %D%/wanted_rows.c %D%/wanted_rows.h
libsluice_cpu_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS)
CPU_LIBS = libsluice-cpu.a

if X86_64
libsluice_cpu_a_CPPFLAGS = $(AM_CPPFLAGS) -DSLUICE_CPU_X86
noinst_LIBRARIES += libsluice-cpu-avx2.a libsluice-cpu-avx512.a libsluice-cpu-avx512vnni.a
cpu_simd_headers = %D%/kernels/attend_packed_simd.h %D%/kernels/attend_rows_simd.h %D%/kernels/attend_simd.h %D%/kernels/kernels_simd.h %D%/kernels/ops_simd.h %D%/kernels/tile_core.h %D%/kernels/tile_formats.h %D%/kernels/tile_rare.h
CPU_AVX512 = -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq
libsluice_cpu_avx2_a_SOURCES = %D%/kernels/kernels_avx2.c %D%/kernels/eight_few.h %D%/kernels/octet_formats.h %D%/kernels/octet_products.h %D%/kernels/octet_tile.h %D%/kernels/super_formats.h %D%/kernels/super_tile.h %D%/kernels/tile_wide.h %D%/kernels/wide_formats.h %D%/kernels/simd_avx2.h %D%/kernels/interleaved_blocks.h %D%/kernels/interleaved_super.h %D%/kernels/interleaved_tile.h $(cpu_simd_headers)
libsluice_cpu_avx2_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(SIMD_CFLAGS) -mavx2 -mfma -mf16c
libsluice_cpu_avx512_a_SOURCES = %D%/kernels/kernels_avx512.c %D%/kernels/simd_avx512.h $(cpu_simd_headers)
libsluice_cpu_avx512_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(WIDE_CFLAGS) $(CPU_AVX512)
libsluice_cpu_avx512vnni_a_SOURCES = %D%/kernels/kernels_avx512vnni.c %D%/kernels/simd_avx512.h %D%/kernels/tile_bytes.h %D%/kernels/tile_few.h %D%/kernels/tile_one.h $(cpu_simd_headers)
# its products with activations of one byte, in words of 256 bits, and headers that they share with avx2
noinst_LIBRARIES += libsluice-cpu-octets-vnni.a
libsluice_cpu_octets_vnni_a_SOURCES = %D%/kernels/kernels_octets_vnni.c %D%/kernels/octets_vnni.h %D%/kernels/vnni_few.h %D%/kernels/vnni_super.h %D%/kernels/vnni_wide.h
libsluice_cpu_octets_vnni_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(WIDE_CFLAGS) $(CPU_AVX512) -mavx512vnni
libsluice_cpu_avx512vnni_a_CFLAGS = $(AM_CFLAGS) $(KERNEL_CFLAGS) $(WIDE_CFLAGS) $(CPU_AVX512) -mavx512vnni
# they use the plain C library as well as it them
CPU_LIBS += libsluice-cpu-avx2.a libsluice-cpu-avx512.a libsluice-cpu-avx512vnni.a libsluice-cpu-octets-vnni.a libsluice-cpu.a
endif
CPU_LIBS += $(EXPERTS_LIBS) -lm
