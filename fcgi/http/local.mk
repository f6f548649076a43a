# requests, replies and routes

libsluice_fcgi_a_SOURCES += \
	%D%/audit.c %D%/audit.h \
	%D%/client_address.c %D%/client_address.h \
	%D%/cors.c %D%/cors.h \
	%D%/dialect.c %D%/dialect.h \
	%D%/file_name.c %D%/file_name.h \
	%D%/http_method.c \
	%D%/identity.h \
	%D%/ignored.c %D%/ignored.h \
	%D%/relay_error.c %D%/relay_error.h \
	%D%/json_put.c %D%/json_put.h \
	%D%/multipart.c %D%/multipart.h \
	%D%/path_id.c %D%/path_id.h \
	%D%/reply.c %D%/reply.h \
	%D%/reply_head.h \
	%D%/reply_stream.c %D%/reply_stream.h \
	%D%/request.c %D%/request.h \
	%D%/route.c %D%/route.h \
	%D%/route_hint.c \
	%D%/serve.c %D%/serve.h \
	%D%/sse.c %D%/sse.h \
	%D%/work.c %D%/work.h
