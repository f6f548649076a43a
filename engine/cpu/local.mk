# files of engine/cpu: plain C in one library; each instruction set in its own, with its own flags
noinst_LIBRARIES += libsluice-cpu.a
libsluice_cpu_a_SOURCES = \
	%D%/attention.c %D%/backend.c %D%/bandwidth.c %D%/bandwidth.h %D%/delta_net.c \
	%D%/features.c %D%/ffn.c %D%/ffn.h %D%/head.c %D%/head.h %D%/kernels.h \
	%D%/kernels_generic.c %D%/kv_layout.h %D%/layout.c %D%/layout.h %D%/matmul.c \
	%D%/matmul.h %D%/mixer.h %D%/open.h %D%/panel.c %D%/panel.h %D%/pool.c %D%/pool.h \
	%D%/rope.c %D%/rope.h %D%/router.c %D%/router.h %D%/step.c %D%/step.h %D%/worker.h
CPU_LIBS = libsluice-cpu.a -lm
