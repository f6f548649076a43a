# the engine that obeys, for tests of what stands before it
check_PROGRAMS += %D%/fake_engine
%C%_fake_engine_SOURCES = %D%/fake_engine.c
%C%_fake_engine_LDADD = $(TEXT_LIBS) $(WIRE_LIBS) $(BASE_LIBS) -lm
