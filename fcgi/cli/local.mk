# sluice, the operator's command: the only program that is linked with every room

bin_PROGRAMS += sluice
sluice_SOURCES = %D%/main.c %D%/command.h \
	%D%/cmd_up.c %D%/model_switch.c %D%/model_switch.h %D%/model_pull.c %D%/model_pull.h %D%/supervisor.c %D%/supervisor.h %D%/nginx_conf.c %D%/nginx_conf.h \
	%D%/cmd_doctor.c \
	%D%/cmd_user.c %D%/cmd_key.c %D%/cmd_export.c %D%/cmd_import.c %D%/cmd_backup.c %D%/cmd_restore.c %D%/backup_files.c %D%/backup_files.h %D%/cli_store.c %D%/cli_store.h \
	%D%/cmd_tokenize.c %D%/cmd_detokenize.c %D%/cmd_template.c %D%/cmd_parse.c %D%/cli_jsonl.c %D%/cli_jsonl.h \
	%D%/cmd_info.c %D%/cmd_generate.c %D%/cli_grammar.c %D%/cli_grammar.h %D%/cmd_logits.c %D%/cmd_perplexity.c %D%/cmd_synth.c %D%/cmd_bench.c \
	%D%/bench_grammar.c %D%/bench.c %D%/bench.h %D%/bench_text.c \
	%D%/routing.c %D%/routing.h %D%/bench_disk.c %D%/bench_disk.h %D%/cmd_pack.c %D%/expert_report.c %D%/expert_report.h \
	%D%/cmd_pull.c %D%/pull.h %D%/pull_list.c %D%/pull_http.c %D%/pull_http.h %D%/pull_request.c %D%/pull_outcome.c %D%/pull_hub_list.c %D%/pull_disk.c %D%/pull_verify.c %D%/pull_progress.c \
	%D%/dump.c %D%/dump.h %D%/cli_ids.c %D%/cli_ids.h %D%/cli_options.c %D%/cli_options.h \
	%D%/cli_run.c %D%/cli_run.h %D%/synth.c %D%/synth.h %D%/synth_gguf.c %D%/synth_gguf.h %D%/synth_shape.c %D%/synth_shape.h
sluice_LDADD = libsluice-fcgi.a $(GRAMMAR_LIBS) $(SCHED_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) \
	$(WIRE_LIBS) $(SQL_LIBS) $(BASE_LIBS) $(CURL_LIBS) $(ARCHIVE_LIBS) $(MD4C_LIBS) -lm
