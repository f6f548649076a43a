noinst_LIBRARIES += libsluice-sched.a
libsluice_sched_a_SOURCES = \
	%D%/admission.c \
	%D%/batch.c \
	%D%/connection.c %D%/connection.h \
	%D%/drafting.c %D%/drafting.h \
	%D%/embed/embed_load.c %D%/embed/embed_load.h \
	%D%/embedder.c %D%/embedder.h \
	%D%/embed/text_vector.c %D%/embed/text_vector.h \
	%D%/client/event_log.c %D%/client/event_log.h \
	%D%/expert_stats.c %D%/expert_stats.h \
	%D%/fair_queue.c %D%/fair_queue.h \
	%D%/inbox.c %D%/inbox.h \
	%D%/job.c %D%/job.h \
	%D%/job_table.c %D%/job_table.h \
	%D%/client/listener.c %D%/client/listener.h \
	%D%/loop.c %D%/loop.h %D%/loop_report.c %D%/loop_state.h \
	%D%/watch/model_facts.c %D%/watch/model_facts.h \
	%D%/watch/monitor.c %D%/watch/monitor.h \
	%D%/watch/notify.c %D%/watch/notify.h \
	%D%/policy/draft_choice.c %D%/policy/draft_choice.h \
	%D%/policy/draft_worth.c %D%/policy/draft_worth.h \
	%D%/policy/prefill_budget.c %D%/policy/prefill_budget.h \
	%D%/prompt_disk.c %D%/prompt_disk.h %D%/prompt_disk_internal.h %D%/prompt_load.c \
	%D%/prompt_scores.c %D%/prompt_scores.h \
	%D%/sampling/random.c %D%/sampling/random.h \
	%D%/sampling/sampler.c %D%/sampling/sampler.h \
	%D%/scheduler.c %D%/scheduler.h \
	%D%/scheduler_state.h \
	%D%/server.c %D%/server.h \
	%D%/server_feed.c \
	%D%/server_requests.c \
	%D%/server_state.h \
	%D%/policy/slot_turns.c %D%/policy/slot_turns.h \
	%D%/speculation.c %D%/speculation.h \
	%D%/stats.c %D%/stats.h \
	%D%/sampling/stop.c %D%/sampling/stop.h \
	%D%/sampling/text_output.c %D%/sampling/text_output.h \
	%D%/sampling/token_rules.c %D%/sampling/token_rules.h \
	%D%/sampling/topk.c %D%/sampling/topk.h \
	%D%/sampling/typical.c %D%/sampling/typical.h
SCHED_LIBS = libsluice-sched.a $(DRAFT_LIBS) $(GRAMMAR_LIBS) $(MEMORY_LIBS) $(CACHE_LIBS) $(CONFINE_LIBS) $(WIRE_LIBS)
