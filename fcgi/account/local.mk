# a user's account

libsluice_fcgi_a_SOURCES += \
	%D%/account_lists.h \
	%D%/api_account.c \
	%D%/api_auth.c \
	%D%/api_confirm.c \
	%D%/api_factor.c \
	%D%/api_keys.c \
	%D%/api_passkey_login.c \
	%D%/api_passkeys.c \
	%D%/api_preferences.c \
	%D%/api_sessions.c \
	%D%/api_sign_up.c \
	%D%/qr.c %D%/qr.h \
	%D%/user_groups.c %D%/user_groups.h \
	%D%/user_jobs.c %D%/user_jobs.h
