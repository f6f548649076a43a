# projects: their API, and what answers are given of them

libsluice_fcgi_a_SOURCES += \
	%D%/api_project_shares.c \
	%D%/api_projects.c \
	%D%/project.h \
	%D%/project_json.c %D%/project_json.h \
	%D%/project_near.c %D%/project_near.h \
	%D%/project_prompt.c \
	%D%/project_sources.c
