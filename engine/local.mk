# the engine's program and what every room of it is linked with

pkglibexec_PROGRAMS += sluice-engine
sluice_engine_SOURCES = %D%/main.c
sluice_engine_LDADD = $(SCHED_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(MODEL_LIBS) \
	$(TEXT_LIBS) $(BASE_LIBS) -lm
