noinst_LIBRARIES += libsluice-sched.a
libsluice_sched_a_SOURCES = \
	%D%/admission.c %D%/answer.c %D%/answer.h %D%/batch.c %D%/connection.c %D%/connection.h \
	%D%/event_log.c %D%/event_log.h %D%/expert_tally.c %D%/expert_tally.h %D%/fair_queue.c %D%/fair_queue.h %D%/inbox.c %D%/inbox.h \
	%D%/job.c %D%/job.h %D%/job_table.c %D%/job_table.h %D%/listener.c %D%/listener.h %D%/loop.c %D%/loop.h \
	%D%/monitor.c %D%/monitor.h %D%/notify.c %D%/notify.h %D%/pace.c %D%/pace.h %D%/prompt_scores.c %D%/prompt_scores.h %D%/random.c %D%/random.h \
	%D%/ranking.c %D%/ranking.h \
	%D%/sampler.c %D%/sampler.h %D%/scheduler.c %D%/scheduler.h %D%/scheduler_state.h \
	%D%/server.c %D%/server.h %D%/stop.c %D%/stop.h \
	%D%/tally.c %D%/tally.h %D%/token_rules.c %D%/token_rules.h %D%/typical.c %D%/typical.h
SCHED_LIBS = libsluice-sched.a $(GRAMMAR_LIBS) $(MEMORY_LIBS) $(CACHE_LIBS) $(WIRE_LIBS)
