noinst_LIBRARIES += libsluice-wire.a
libsluice_wire_a_SOURCES = \
	%D%/frame.c %D%/frame.h %D%/message.c %D%/message.h %D%/message_parts.h %D%/relay_message.c %D%/event.c %D%/speculation_parts.c %D%/vector_parts.c \
	%D%/cache_feed.c %D%/cache_message.c %D%/cache_message.h %D%/client.c %D%/peer.c %D%/peer.h \
	%D%/prompt_cache.h %D%/prompt_key.c %D%/status.c %D%/status.h engine/engine.h
WIRE_LIBS = libsluice-wire.a $(SODIUM_LIBS)
