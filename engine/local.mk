# the engine's program and what every room of it is linked with

noinst_LIBRARIES += libsluice-backend.a
libsluice_backend_a_SOURCES = %D%/backend_select.c %D%/engine.h
