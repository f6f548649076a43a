# every test; each room's unit tests are listed in tests/unit/ROOM.mk

if HAVE_CMOCKA
# the longest first, so that none is left over at the end
include tests/golden/golden.mk
include tests/unit/vulkan.mk
include tests/unit/base.mk
include tests/unit/chat.mk
include tests/unit/cli.mk
include tests/unit/cpu.mk
include tests/unit/engine.mk
include tests/unit/prompt_cache.mk
include tests/unit/experts.mk
include tests/unit/memory.mk
include tests/unit/fcgi.mk
include tests/unit/grammar.mk
include tests/unit/model.mk
include tests/unit/store.mk
include tests/unit/text.mk
endif
include tests/api/local.mk
include tests/bench/local.mk
include tests/once.mk
