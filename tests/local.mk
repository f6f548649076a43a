# every test; each room's unit tests are listed in tests/unit/ROOM.mk
