# the client's side of OAuth 2.1, for tool servers that want a sign-in of each user

libsluice_fcgi_a_SOURCES += \
	%D%/oauth.h \
	%D%/oauth_about.c \
	%D%/oauth_challenge.c %D%/oauth_challenge.h \
	%D%/oauth_client.c \
	%D%/oauth_discovery.c \
	%D%/oauth_token.c
