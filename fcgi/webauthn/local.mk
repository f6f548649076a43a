# what authenticators sign

libsluice_fcgi_a_SOURCES += \
	%D%/webauthn.c %D%/webauthn.h \
	%D%/webauthn_cbor.c \
	%D%/webauthn_client.c \
	%D%/webauthn_site.c
