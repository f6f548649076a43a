# `make check` runs every test. tests/run-all has two builds: these targets are what it runs of each, so that no test costs twice.

# Memory, strings, protocols, tables, what is read from disks: a sanitizer sees all that a run without one would, so these run there only.
unit = $(addprefix tests/unit/,$(1))
SANITIZED_ONLY = $(BASE_TESTS) $(CHAT_TESTS) $(CLI_TESTS) $(EXPERTS_TESTS) $(FCGI_TESTS) $(GRAMMAR_TESTS) $(MEMORY_TESTS) $(STORE_TESTS) \
	$(STORE_EXPORT_TEST) $(TEXT_TESTS) $(call unit,test_frame test_status test_sampler test_sampler_rules test_stop test_block_pool test_prefix_index test_scheduler \
	test_scheduler_stops test_prefix_reuse test_inbox test_stats test_prefill_budget test_fair_queue test_monitor test_speculation \
	test_draft_choice test_draft_worth test_lookup test_recall test_embedder test_cache_feed test_disk_cache test_disk_rows test_prompt_disk \
	test_engine_disk test_weight test_safetensors test_model test_gguf)
# But for those that do less under a sanitizer: what filters calls, and what is given more time there.
IN_BOTH = $(call unit,test_worker_walls test_unzip test_jinja)
# Whole models, which compute the same sums there; the sanitized build has no Vulkan.
OPTIMISED_ONLY = $(GOLDEN_TESTS) $(VULKAN_TESTS)

OPTIMISED_TESTS = $(filter-out $(filter-out $(IN_BOTH),$(SANITIZED_ONLY)),$(TESTS))
# These wait more than they compute. At the end they would leave processors idle, so they begin when half of the work is still to come.
WAITING = $(call unit,test_recorder test_cache_follower test_store_waits)
first_half = $(CPU_TESTS) $(ENGINE_TESTS)
SANITIZED_TESTS = $(first_half) $(WAITING) $(filter-out $(OPTIMISED_ONLY) $(first_half) $(WAITING),$(TESTS))
test_helpers = $(filter-out $(TESTS),$(check_PROGRAMS))

check-optimised: all
	$(MAKE) $(AM_MAKEFLAGS) check_PROGRAMS="$(OPTIMISED_TESTS) $(test_helpers)" TESTS="$(OPTIMISED_TESTS)" check-TESTS
# The rooms that compute, and the tests that compute the same slowly, so that a build may optimise these alone: elsewhere that costs a
# sanitized build more than it gives.
computing: $(BUILT_SOURCES)
	$(MAKE) $(AM_MAKEFLAGS) $(filter-out libsluice-fcgi.a libsluice-sql.a libsluice-reader.a,$(noinst_LIBRARIES)) $(CPU_TESTS)
# Under a sanitizer most of test_cpu_kernels' time: kernels without vectors, and the plain rows that it compares with.
plain-kernels: $(BUILT_SOURCES)
	$(MAKE) $(AM_MAKEFLAGS) $(libsluice_cpu_a_OBJECTS) $(libsluice_format_a_OBJECTS) $(tests_unit_test_cpu_kernels_OBJECTS)
# The programs and their tests, without page and documents, which are the other build's.
programs: $(BUILT_SOURCES)
	$(MAKE) $(AM_MAKEFLAGS) $(bin_PROGRAMS) $(pkglibexec_PROGRAMS) $(SANITIZED_TESTS) $(test_helpers)
install-programs: programs
	$(MAKE) $(AM_MAKEFLAGS) install-binPROGRAMS install-pkglibexecPROGRAMS
# Automake runs a command for config.h each time: what needs it would wait for that, and come last. It is made by now (-o, also for what
# that make starts).
check-sanitized: programs
	$(MAKE) -o config.h AM_MAKEFLAGS="-o config.h" check_PROGRAMS="$(SANITIZED_TESTS)" TESTS="$(SANITIZED_TESTS)" check-TESTS
.PHONY: check-optimised computing plain-kernels programs install-programs check-sanitized
