# sluice, the operator's command: the only program that is linked with every room

bin_PROGRAMS += sluice
sluice_SOURCES = %D%/main.c %D%/command.h \
	%D%/cmd_tokenize.c %D%/cmd_detokenize.c %D%/jsonl.c %D%/jsonl.h \
	%D%/cmd_doctor.c %D%/cmd_up.c %D%/supervisor.c %D%/supervisor.h %D%/nginx_conf.c %D%/nginx_conf.h
