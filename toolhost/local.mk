# sluice-toolhost: tool servers that are programs, each in a sandbox.

pkglibexec_PROGRAMS += sluice-toolhost
sluice_toolhost_SOURCES = %D%/main.c %D%/toolhost.h %D%/orphans.c %D%/orphans.h %D%/programs.c %D%/programs.h %D%/program_walls.c %D%/program_walls.h %D%/session.c %D%/session.h
sluice_toolhost_LDADD = $(CONFINE_LIBS) -lm
