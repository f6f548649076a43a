# settings of the server

libsluice_fcgi_a_SOURCES += \
	%D%/server_settings.c %D%/server_settings.h %D%/server_settings_change.c \
	%D%/setting_checks.c %D%/setting_checks.h \
	%D%/setting_table.c %D%/setting_table.h
