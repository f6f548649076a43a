noinst_LIBRARIES += libsluice-wire.a
libsluice_wire_a_SOURCES = \
	%D%/frame.c %D%/frame.h %D%/message.c %D%/message.h %D%/event.c \
	%D%/client.c %D%/status.c %D%/status.h engine/engine.h
WIRE_LIBS = libsluice-wire.a
