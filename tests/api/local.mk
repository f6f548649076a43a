# the engine that obeys, for tests of what stands before it
check_PROGRAMS += %D%/scripted_engine
%C%_scripted_engine_SOURCES = %D%/scripted_engine.c %D%/fake_detached.c %D%/fake_detached.h
%C%_scripted_engine_LDADD = $(TEXT_LIBS) $(WIRE_LIBS) $(BASE_LIBS) -lm
