# llama.cpp's own endpoints

libsluice_fcgi_a_SOURCES += \
	%D%/api_llamacpp.c \
	%D%/api_props.c \
	%D%/llamacpp.h \
	%D%/llamacpp_infill.c \
	%D%/llamacpp_request.c \
	%D%/llamacpp_view.c
