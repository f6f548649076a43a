# files of engine/vulkan
noinst_LIBRARIES += libsluice-vulkan.a
if VULKAN
libsluice_vulkan_a_SOURCES = \
	%D%/device/choice.c \
	%D%/device/command.c \
	%D%/device/device.c \
	%D%/device/gpu.h \
	%D%/device/instance.c \
	%D%/device/khr_matrices.c %D%/device/khr_matrices.h \
	%D%/device/khr_matrix_api.h \
	%D%/device/memory.c \
	%D%/device/pipeline.c \
	%D%/device/pipeline_file.c %D%/device/pipeline_file.h \
	%D%/device/profile.c %D%/device/profile.h \
	%D%/device/shader.c %D%/device/shader.h \
	%D%/experts/device_slots.c %D%/experts/device_slots.h \
	%D%/experts/expert_pool.c %D%/experts/expert_pool.h \
	%D%/experts/expert_views.c %D%/experts/expert_views.h \
	%D%/experts/slot_policy.c %D%/experts/slot_policy.h \
	%D%/measure/proxy_model.c %D%/measure/proxy_model.h \
	%D%/measure/repack_bandwidth.c %D%/measure/repack_bandwidth.h \
	%D%/measure/vulkan_speed.c %D%/measure/vulkan_speed.h \
	%D%/device/backend_kept.c %D%/device/backend_kept.h \
	%D%/ops/backend_state.h \
	%D%/ops/cpu_experts.c %D%/ops/cpu_experts.h \
	%D%/ops/device_bandwidth.c %D%/ops/device_bandwidth.h \
	%D%/ops/dispatch.h \
	%D%/ops/expert_cpu_offload.c %D%/ops/expert_cpu_offload.h \
	%D%/ops/expert_cpu_offload_rates.c \
	%D%/ops/forward.c %D%/ops/forward.h \
	%D%/ops/forward_dump.c \
	%D%/ops/matrix_places.c %D%/ops/matrix_places.h \
	%D%/ops/record_gemm.c %D%/ops/record_gemm.h \
	%D%/ops/record_few.c %D%/ops/record_matmul.h \
	%D%/ops/host_sync.c %D%/ops/host_sync.h \
	%D%/ops/record.c %D%/ops/record.h \
	%D%/ops/record_attention.c %D%/ops/record_sum.c \
	%D%/ops/record_resident.c %D%/ops/record_resident_few.c %D%/ops/record_resident.h \
	%D%/ops/delta_net_ops.c %D%/ops/delta_net_ops.h \
	%D%/ops/device_content.c %D%/ops/device_content.h \
	%D%/ops/router_fold.c %D%/ops/router_fold.h \
	%D%/ops/row_units.c \
	%D%/ops/step_profile.c %D%/ops/step_profile.h \
	%D%/ops/vulkan_step.c %D%/ops/vulkan_step.h \
	%D%/ops/workspace.c \
	%D%/vulkan_backend.c \
	%D%/weights/block_decode.c %D%/weights/block_decode.h \
	%D%/weights/block_words.h \
	%D%/weights/device_block.c %D%/weights/device_block.h \
	%D%/weights/device_layout.c %D%/weights/device_layout.h \
	%D%/weights/device_model.c %D%/weights/device_model.h \
	%D%/weights/heap.c %D%/weights/heap.h
nodist_libsluice_vulkan_a_SOURCES = %D%/shaders.spv.h
BUILT_SOURCES += %D%/shaders.spv.h
CLEANFILES += %D%/shaders.spv.h
VULKAN_BACKEND_LIBS = libsluice-vulkan.a $(EXPERTS_LIBS) $(VULKAN_LIBS)
else
libsluice_vulkan_a_SOURCES = %D%/stubs.c
VULKAN_BACKEND_LIBS = libsluice-vulkan.a
endif

VULKAN_SHADERS = $(wildcard $(top_srcdir)/%D%/shaders/*.comp $(top_srcdir)/%D%/shaders/include/*.glsl $(top_srcdir)/%D%/shaders/include/*/*.glsl $(top_srcdir)/%D%/shaders/*.h) \
	$(top_srcdir)/%D%/shaders/variants.list $(top_srcdir)/%D%/shaders/build.sh
EXTRA_DIST += $(VULKAN_SHADERS)

%D%/shaders.spv.h: $(VULKAN_SHADERS)
	$(AM_V_GEN)$(MKDIR_P) %D% && sh $(top_srcdir)/%D%/shaders/build.sh "$(GLSLANG)" $(top_srcdir)/%D%/shaders $@

%D%/device/shader.$(OBJEXT): %D%/shaders.spv.h

clean-local: clean-shaders
clean-shaders:
	rm -rf %D%/shaders.spv.h.d
