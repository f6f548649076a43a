# files that users send

libsluice_fcgi_a_SOURCES += \
	%D%/api_attachments.c \
	%D%/attachment.c %D%/attachment.h \
	%D%/attachment_images.c \
	%D%/attachment_send.c \
	%D%/attachment_take.c \
	%D%/file_reading.c %D%/file_reading.h \
	%D%/upload.c %D%/upload.h
