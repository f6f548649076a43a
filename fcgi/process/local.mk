# processes: the pools and what they share

libsluice_fcgi_a_SOURCES += \
	%D%/child.c %D%/child.h \
	%D%/listen.c %D%/listen.h \
	%D%/local_model.c %D%/local_model.h \
	%D%/pool_master.c %D%/pool_master.h \
	%D%/reader_program.c %D%/reader_program.h \
	%D%/shared.c %D%/shared.h \
	%D%/shared_audit.c \
	%D%/shared_known.c \
	%D%/shared_limit.c \
	%D%/shared_usage.c \
	%D%/side_model.c %D%/side_model.h \
	%D%/state.h \
	%D%/stream_abort.c %D%/stream_abort.h \
	%D%/work_gate.c %D%/work_gate.h %D%/work_use.c %D%/work_use.h \
	%D%/relay_estimate.c %D%/relay_estimate.h \
	%D%/relay_via.c %D%/relay_via.h \
	%D%/worker.c %D%/worker.h \
	%D%/worker_walls.c %D%/worker_walls.h
