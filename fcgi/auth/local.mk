# who asks, and how often they may

libsluice_fcgi_a_SOURCES += \
	%D%/auth.c %D%/auth.h \
	%D%/authorise.c \
	%D%/confirmation.c %D%/confirmation.h \
	%D%/credentials.c %D%/credentials.h \
	%D%/limits.c %D%/limits.h \
	%D%/passkeys.c %D%/passkeys.h \
	%D%/loopback.c %D%/loopback.h \
	%D%/session_cookie.c %D%/session_cookie.h \
	%D%/throttle.c %D%/throttle.h \
	%D%/usage_ledger.c %D%/usage_ledger.h
