# golden tests: whole models on a backend against reference outputs
GOLDEN_TESTS =
if VULKAN
GOLDEN_TESTS += %D%/test_families_vulkan %D%/test_demo_vulkan %D%/test_hybrid_vulkan %D%/test_kv_vulkan
endif
GOLDEN_TESTS += %D%/test_demo_cpu %D%/test_families_cpu %D%/test_hybrid_cpu %D%/test_kv_cpu
check_PROGRAMS += $(GOLDEN_TESTS)
TESTS += $(GOLDEN_TESTS)
# What all of them share is compiled once, though each has its own flags.
EXTRA_LIBRARIES = %D%/libgolden.a
CLEANFILES += %D%/libgolden.a
%C%_libgolden_a_SOURCES = %D%/golden.c %D%/golden.h %D%/golden_cases.c %D%/golden_cases.h %D%/golden_truth.c %D%/golden_truth.h fcgi/cli/cli_run.c fcgi/cli/cli_run.h
GOLDEN_LIBS = %D%/libgolden.a $(MEMORY_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) $(BASE_LIBS) $(CMOCKA_LIBS) -lm

%C%_test_demo_cpu_SOURCES = %D%/test_demo.c
%C%_test_demo_cpu_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"cpu"' -DGOLDEN_POSITIONS=4096
%C%_test_demo_cpu_LDADD = $(GOLDEN_LIBS)
# lavapipe computes on the CPU: fewer positions (more than one chunk), the same code
%C%_test_demo_vulkan_SOURCES = %D%/test_demo.c
%C%_test_demo_vulkan_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"vulkan"' -DGOLDEN_POSITIONS=64
%C%_test_demo_vulkan_LDADD = $(GOLDEN_LIBS)
%C%_test_families_cpu_SOURCES = %D%/test_families.c
%C%_test_families_cpu_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"cpu"'
%C%_test_families_cpu_LDADD = $(GOLDEN_LIBS)
%C%_test_families_vulkan_SOURCES = %D%/test_families.c
%C%_test_families_vulkan_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"vulkan"'
%C%_test_families_vulkan_LDADD = $(GOLDEN_LIBS)
%C%_test_hybrid_cpu_SOURCES = %D%/test_hybrid.c
%C%_test_hybrid_cpu_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"cpu"'
%C%_test_hybrid_cpu_LDADD = $(GOLDEN_LIBS)
%C%_test_hybrid_vulkan_SOURCES = %D%/test_hybrid.c
%C%_test_hybrid_vulkan_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"vulkan"'
%C%_test_hybrid_vulkan_LDADD = $(GOLDEN_LIBS)
%C%_test_kv_cpu_SOURCES = %D%/test_kv.c
%C%_test_kv_cpu_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"cpu"'
%C%_test_kv_cpu_LDADD = $(GOLDEN_LIBS)
%C%_test_kv_vulkan_SOURCES = %D%/test_kv.c
%C%_test_kv_vulkan_CPPFLAGS = $(AM_CPPFLAGS) -DGOLDEN_BACKEND='"vulkan"'
%C%_test_kv_vulkan_LDADD = $(GOLDEN_LIBS)
EXTRA_DIST += %D%/make_moe.py %D%/reference_dense.py %D%/reference_states.py
