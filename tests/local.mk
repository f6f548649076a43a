# every test; each room's unit tests are listed in tests/unit/ROOM.mk

if HAVE_CMOCKA
include tests/unit/base.mk
endif
