# the admin's endpoints

libsluice_fcgi_a_SOURCES += \
	%D%/api_admin.c \
	%D%/api_admin_checks.c \
	%D%/api_admin_jobs.c \
	%D%/api_admin_models.c \
	%D%/api_admin_search.c \
	%D%/api_audit.c \
	%D%/api_groups.c \
	%D%/api_health.c \
	%D%/api_history.c \
	%D%/api_log.c \
	%D%/api_metrics.c \
	%D%/api_settings.c \
	%D%/api_usage.c \
	%D%/api_users.c \
	%D%/diagnostics.c %D%/diagnostics.h \
	%D%/hub_pull.c %D%/hub_pull.h \
	%D%/api_local_models.c \
	%D%/local_metrics.c %D%/local_metrics.h \
	%D%/local_models.c %D%/local_models.h
