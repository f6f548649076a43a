# files that models are kept in: GGUF and safetensors, their tensors, packed weights
noinst_LIBRARIES += libsluice-format.a
libsluice_format_a_SOURCES = \
	%D%/gguf.c %D%/gguf.h \
	%D%/gguf_files.c \
	%D%/gguf_tensors.c %D%/gguf_tensors.h \
	%D%/safetensors.c %D%/safetensors.h \
	%D%/tensor_file.c %D%/tensor_file.h \
	%D%/tensors.c %D%/tensors.h \
	%D%/weight.c %D%/weight.h \
	%D%/weight_bits.h \
	%D%/weight_block.c %D%/weight_block.h
FORMAT_LIBS = libsluice-format.a
