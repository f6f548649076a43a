noinst_LIBRARIES += libsluice-model.a
libsluice_model_a_SOURCES = \
	%D%/bind.c %D%/bind.h \
	%D%/bind_experts.c \
	%D%/bind_gpt_oss.c \
	%D%/config.c %D%/config.h \
	%D%/kv_type.h %D%/model_stats.c %D%/model_stats.h \
	%D%/family.c %D%/family.h \
	%D%/family_bailing_moe.c \
	%D%/family_bert.c \
	%D%/family_dflash.c \
	%D%/family_glm4_moe.c \
	%D%/family_gpt_oss.c \
	%D%/family_llama.c \
	%D%/family_qwen2_moe.c \
	%D%/family_qwen3.c \
	%D%/family_qwen3_5_moe.c \
	%D%/family_qwen3_moe.c \
	%D%/model.c %D%/model.h \
	%D%/next_layer.c %D%/next_layer.h \
	%D%/tensor_manifest.c %D%/tensor_manifest.h \
	%D%/plan.h \
	%D%/plan_parts.c %D%/plan_parts.h \
	%D%/pooling.c %D%/pooling.h \
	%D%/plan_weights.c %D%/plan_weights.h \
	%D%/rope_frequencies.c \
	%D%/model_source.c %D%/model_source.h \
	%D%/model_source_gguf.c \
	%D%/weight_files.c %D%/weight_files.h
MODEL_LIBS = libsluice-model.a $(FORMAT_LIBS)
