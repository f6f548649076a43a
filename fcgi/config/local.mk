# settings of the server

libsluice_fcgi_a_SOURCES += \
	%D%/server_settings_change.c %D%/server_settings.c %D%/server_settings.h
