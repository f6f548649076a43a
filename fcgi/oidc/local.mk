# sign-in by an OpenID provider

libsluice_fcgi_a_SOURCES += \
	%D%/api_oidc.c \
	%D%/jwk.c %D%/jwk.h \
	%D%/jws.c %D%/jws.h \
	%D%/oidc_account.c %D%/oidc_account.h \
	%D%/oidc_config.c %D%/oidc_config.h \
	%D%/oidc_cookie.c %D%/oidc_cookie.h \
	%D%/oidc_factor.c %D%/oidc_factor.h \
	%D%/oidc_form.c %D%/oidc_form.h \
	%D%/oidc_http.c %D%/oidc_http.h \
	%D%/oidc_provider.c %D%/oidc_provider.h \
	%D%/oidc_sign_in.c %D%/oidc_sign_in.h \
	%D%/oidc_token.c %D%/oidc_token.h
