# what the machine has, what a model takes, and the plan that follows
noinst_LIBRARIES += libsluice-memory.a
libsluice_memory_a_SOURCES = \
	%D%/cgroup.c %D%/cgroup.h %D%/machine.c %D%/machine.h %D%/memory_estimate.c %D%/memory_fit.c %D%/memory_fit.h \
	%D%/memory_load.c %D%/memory_load.h %D%/memory_model.c %D%/memory_options.h %D%/memory_plan.c %D%/memory_plan.h \
	%D%/memory_rates.c %D%/memory_rates.h %D%/memory_text.c %D%/memory_text.h %D%/pressure.c %D%/pressure.h %D%/sizing.c %D%/sizing.h \
	%D%/weight_lock.c %D%/weight_lock.h
MEMORY_LIBS = libsluice-memory.a $(EXPERTS_LIBS) $(MODEL_LIBS)
