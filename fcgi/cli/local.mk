# sluice, the operator's command: the only program that is linked with every room

bin_PROGRAMS += sluice
sluice_SOURCES = %D%/main.c %D%/command.h \
	%D%/cmd_up.c toolhost/programs.c toolhost/programs.h %D%/up/up.h %D%/up/children.c %D%/up/model_switch.c %D%/up/model_switch.h %D%/pull/model_pull.c %D%/pull/model_pull.h %D%/up/supervisor.c %D%/up/supervisor.h %D%/up/nginx_conf.c %D%/up/nginx_conf.h %D%/up/run_as.c %D%/up/run_as.h \
	%D%/cmd_doctor.c %D%/client/cli_http.c %D%/client/cli_http.h \
	%D%/chat/cmd_chat.c %D%/chat/chat.h %D%/chat/chat_key.c %D%/chat/chat_server.c %D%/client/cmd_status.c %D%/client/cmd_logs.c %D%/cmd_completion.c \
	%D%/launch/cmd_launch.c %D%/launch/launch.h %D%/launch/launch_clients.c %D%/launch/launch_text.c %D%/launch/launch_files.c %D%/launch/launch_key.c %D%/launch/launch_key.h \
	%D%/cmd_user.c %D%/registry/cmd_group.c %D%/cmd_key.c %D%/registry/cmd_upstream.c %D%/registry/cmd_models.c %D%/registry/models_local.c %D%/registry/models_local.h %D%/cmd_export.c %D%/cmd_import.c %D%/cmd_backup.c %D%/cmd_restore.c %D%/cmd_cache.c %D%/prompt_records.c %D%/prompt_records.h %D%/backup_files.c %D%/backup_files.h %D%/cli_store.c %D%/cli_store.h \
	%D%/cmd_tokenize.c %D%/cmd_detokenize.c %D%/cmd_template.c %D%/cmd_parse.c %D%/cli_jsonl.c %D%/cli_jsonl.h \
	%D%/cmd_info.c %D%/cmd_generate.c %D%/cli_grammar.c %D%/cli_grammar.h %D%/cmd_logits.c %D%/cmd_perplexity.c %D%/cmd_synth.c %D%/cmd_bench.c \
	%D%/bench/bench_grammar.c %D%/bench/bench.c %D%/bench/bench.h %D%/bench/bench_cases.c %D%/bench/bench_peer.c %D%/bench/bench_profile.c %D%/bench/bench_text.c \
	%D%/bench/routing.c %D%/bench/routing.h %D%/bench/bench_disk.c %D%/bench/bench_disk.h %D%/cmd_pack.c %D%/bench/expert_report.c %D%/bench/expert_report.h \
	%D%/cmd_pull.c %D%/pull/pull.h %D%/pull/pull_list.c %D%/pull/pull_run.c %D%/pull/pull_choose.c %D%/pull/cmd_search.c %D%/pull/hub_search.c %D%/pull/hub_search.h %D%/pull/model_search.c %D%/pull/model_search.h %D%/pull/own_child.c %D%/pull/own_child.h %D%/pull/hub_name.c %D%/pull/hub_name.h %D%/pull/hub_probe.c %D%/pull/hub_probe.h %D%/pull/hub_plan.c %D%/pull/hub_plan.h %D%/up/hub_model.c %D%/up/side_engines.c %D%/up/local_engines.c %D%/up/local_engines.h %D%/up/local_first.c %D%/up/local_plan.c %D%/up/local_plan.h %D%/up/local_records.c %D%/up/local_room.c %D%/up/local_rows.c %D%/pull/pull_http.c %D%/pull/pull_http.h %D%/pull/pull_request.c %D%/pull/pull_outcome.c %D%/pull/pull_hub_list.c %D%/pull/pull_disk.c %D%/pull/pull_verify.c %D%/pull/pull_progress.c \
	%D%/bench/dump.c %D%/bench/dump.h %D%/cli_ids.c %D%/cli_ids.h %D%/cli_options.c %D%/cli_options.h \
	%D%/cli_run.c %D%/cli_run.h %D%/bench/synth.c %D%/bench/synth.h %D%/bench/synth_gguf.c %D%/bench/synth_gguf.h %D%/bench/synth_shape.c %D%/bench/synth_shape.h
sluice_LDADD = libsluice-fcgi.a $(GRAMMAR_LIBS) $(SCHED_LIBS) libsluice-backend.a $(VULKAN_BACKEND_LIBS) $(CPU_LIBS) $(MODEL_LIBS) $(TEXT_LIBS) \
	$(WIRE_LIBS) $(SQL_LIBS) $(BASE_LIBS) $(CURL_LIBS) $(ARCHIVE_LIBS) $(MD4C_LIBS) -lm

# models of verified families by the memory that they take, for searches without a word
dist_pkgdata_DATA += %D%/pull/known-models.json

# what shells complete, out of the program's own tables
bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = %D%/sluice
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = %D%/_sluice
fishcompletiondir = $(datadir)/fish/vendor_completions.d
nodist_fishcompletion_DATA = %D%/sluice.fish
CLEANFILES += $(nodist_bashcompletion_DATA) $(nodist_zshcompletion_DATA) $(nodist_fishcompletion_DATA)

%D%/sluice: sluice
	$(AM_V_GEN)./sluice completion bash >$@.tmp && mv $@.tmp $@
%D%/_sluice: sluice
	$(AM_V_GEN)./sluice completion zsh >$@.tmp && mv $@.tmp $@
%D%/sluice.fish: sluice
	$(AM_V_GEN)./sluice completion fish >$@.tmp && mv $@.tmp $@
