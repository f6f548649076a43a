/* How long a test waits for what happens at once where nothing else has the processor. It goes on
 * when that has happened, so only a test that fails takes so long. How fast a thing is, tests/bench
 * says. */
#pragma once
#define PATIENCE_MS 120000.0
