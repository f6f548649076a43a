noinst_LIBRARIES += libsluice-sched.a
libsluice_sched_a_SOURCES = \
	%D%/answer.c %D%/answer.h %D%/event_log.c %D%/event_log.h %D%/fair_queue.c %D%/fair_queue.h \
	%D%/job.c %D%/job.h %D%/random.c %D%/random.h %D%/sampler.c %D%/sampler.h \
	%D%/stop.c %D%/stop.h
SCHED_LIBS = libsluice-sched.a $(CACHE_LIBS) $(WIRE_LIBS)
