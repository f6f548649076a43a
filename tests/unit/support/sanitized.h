/* Whether the test was built with a sanitizer, which makes it several times slower and traces the
 * process itself. */
#pragma once
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
