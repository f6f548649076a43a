# files of engine/vulkan
noinst_LIBRARIES += libsluice-vulkan.a
if VULKAN
libsluice_vulkan_a_SOURCES = \
	%D%/backend.c %D%/backend_state.h %D%/bandwidth.c %D%/bandwidth.h %D%/block_words.h %D%/command.c %D%/delta_net.c %D%/delta_net.h \
	%D%/device.c %D%/device_block.c %D%/device_block.h %D%/device_layout.c \
	%D%/device_layout.h %D%/device_model.c %D%/device_model.h %D%/device_restore.c %D%/device_restore.h %D%/dispatch.h %D%/expert_pool.c %D%/expert_pool.h %D%/expert_rest.c %D%/expert_rest.h %D%/expert_rest_rates.c %D%/expert_slots.c %D%/expert_slots.h %D%/expert_views.c %D%/expert_views.h %D%/forward.c \
	%D%/forward.h %D%/forward_dump.c %D%/gpu.h %D%/heap.c %D%/heap.h %D%/instance.c %D%/meet.c %D%/meet.h %D%/memory.c %D%/miniature.c %D%/miniature.h %D%/pipeline.c %D%/profile.c %D%/profile.h %D%/record.c \
	%D%/record.h %D%/shader.c %D%/shader.h %D%/slot_policy.c %D%/slot_policy.h %D%/speed.c %D%/speed.h %D%/step.c %D%/step.h %D%/unpack_speed.c %D%/unpack_speed.h %D%/wide.c %D%/wide.h %D%/work.c %D%/workers.c %D%/workers.h
nodist_libsluice_vulkan_a_SOURCES = %D%/shaders.spv.h
BUILT_SOURCES += %D%/shaders.spv.h
CLEANFILES += %D%/shaders.spv.h
VULKAN_BACKEND_LIBS = libsluice-vulkan.a $(EXPERTS_LIBS) $(VULKAN_LIBS)
else
libsluice_vulkan_a_SOURCES = %D%/stubs.c
VULKAN_BACKEND_LIBS = libsluice-vulkan.a
endif

VULKAN_SHADERS = $(wildcard $(top_srcdir)/%D%/shaders/*.comp $(top_srcdir)/%D%/shaders/*.glsl) \
	$(top_srcdir)/%D%/shaders/variants.list $(top_srcdir)/%D%/shaders/build.sh
EXTRA_DIST += $(VULKAN_SHADERS)

%D%/shaders.spv.h: $(VULKAN_SHADERS)
	$(AM_V_GEN)$(MKDIR_P) %D% && sh $(top_srcdir)/%D%/shaders/build.sh "$(GLSLANG)" $(top_srcdir)/%D%/shaders $@

%D%/shader.$(OBJEXT): %D%/shaders.spv.h

clean-local: clean-shaders
clean-shaders:
	rm -rf %D%/shaders.spv.h.d
