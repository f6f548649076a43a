# the engine that obeys, for tests of what stands before it
check_PROGRAMS += %D%/fake_engine
%C%_fake_engine_SOURCES = %D%/fake_engine.c %D%/fake_detached.c %D%/fake_detached.h
%C%_fake_engine_LDADD = $(TEXT_LIBS) $(WIRE_LIBS) $(BASE_LIBS) -lm
