# tests of engine/vulkan; 77 (skipped) where no Vulkan device answers
if VULKAN
VULKAN_TESTS = %D%/test_slot_policy %D%/test_push_layout %D%/test_vulkan_choice %D%/test_khr_matrices %D%/test_vulkan_attention %D%/test_vulkan_slots %D%/test_vulkan_delta %D%/test_vulkan_model %D%/test_vulkan_start %D%/test_vulkan_splits %D%/test_vulkan_wanted %D%/test_vulkan_kernels %D%/test_vulkan_experts %D%/test_vulkan_router %D%/test_vulkan_row_units %D%/test_vulkan_resident %D%/test_vulkan_resident_states %D%/test_vulkan_router_fold %D%/test_vulkan_few_steps
check_PROGRAMS += $(VULKAN_TESTS)
TESTS += $(VULKAN_TESTS)
VULKAN_TEST_LIBS = $(VULKAN_BACKEND_LIBS) $(MODEL_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm

%C%_test_vulkan_delta_SOURCES = %D%/vulkan/test_vulkan_delta.c
%C%_test_vulkan_delta_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
%C%_test_vulkan_slots_SOURCES = %D%/vulkan/test_vulkan_slots.c %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_vulkan_slots_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
%C%_test_slot_policy_SOURCES = %D%/vulkan/test_slot_policy.c
%C%_test_slot_policy_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_push_layout_SOURCES = %D%/vulkan/test_push_layout.c
%C%_test_push_layout_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_vulkan_choice_SOURCES = %D%/vulkan/test_vulkan_choice.c
%C%_test_vulkan_choice_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_khr_matrices_SOURCES = %D%/vulkan/test_khr_matrices.c
%C%_test_khr_matrices_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_vulkan_attention_SOURCES = %D%/vulkan/test_vulkan_attention.c %D%/vulkan/vulkan_rig.c %D%/vulkan/vulkan_rig.h %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_vulkan_attention_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_vulkan_model_SOURCES = %D%/vulkan/test_vulkan_model.c
%C%_test_vulkan_model_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
%C%_test_vulkan_start_SOURCES = %D%/vulkan/test_vulkan_start.c
%C%_test_vulkan_start_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
vulkan_demo_rig = %D%/vulkan/demo_rig.c %D%/vulkan/demo_rig.h
%C%_test_vulkan_splits_SOURCES = %D%/vulkan/test_vulkan_splits.c $(vulkan_demo_rig)
%C%_test_vulkan_splits_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
%C%_test_vulkan_wanted_SOURCES = %D%/vulkan/test_vulkan_wanted.c $(vulkan_demo_rig)
%C%_test_vulkan_wanted_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
%C%_test_vulkan_resident_SOURCES = %D%/vulkan/test_vulkan_resident.c $(vulkan_demo_rig)
%C%_test_vulkan_resident_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
%C%_test_vulkan_resident_states_SOURCES = %D%/vulkan/test_vulkan_resident_states.c %D%/vulkan/recurrent_rig.c %D%/vulkan/recurrent_rig.h $(vulkan_demo_rig) %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_vulkan_resident_states_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
%C%_test_vulkan_few_steps_SOURCES = %D%/vulkan/test_vulkan_few_steps.c $(vulkan_demo_rig)
%C%_test_vulkan_few_steps_LDADD = $(CPU_LIBS) $(VULKAN_TEST_LIBS)
vulkan_kernel_rig = %D%/vulkan/vulkan_kernel_rig.c %D%/vulkan/vulkan_kernel_rig.h %D%/vulkan/vulkan_rig.c %D%/vulkan/vulkan_rig.h %D%/support/cpu_weights.c %D%/support/cpu_weights.h %D%/support/guarded.c %D%/support/guarded.h
%C%_test_vulkan_kernels_SOURCES = %D%/vulkan/test_vulkan_kernels.c $(vulkan_kernel_rig)
%C%_test_vulkan_kernels_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_vulkan_experts_SOURCES = %D%/vulkan/test_vulkan_experts.c $(vulkan_kernel_rig)
%C%_test_vulkan_experts_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_vulkan_router_SOURCES = %D%/vulkan/test_vulkan_router.c $(vulkan_kernel_rig)
%C%_test_vulkan_router_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_vulkan_row_units_SOURCES = %D%/vulkan/test_vulkan_row_units.c $(vulkan_kernel_rig)
%C%_test_vulkan_row_units_LDADD = $(VULKAN_TEST_LIBS)
%C%_test_vulkan_router_fold_SOURCES = %D%/vulkan/test_vulkan_router_fold.c $(vulkan_kernel_rig)
%C%_test_vulkan_router_fold_LDADD = $(VULKAN_TEST_LIBS)
endif
