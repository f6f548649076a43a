/* One device of several: the software driver, listed twice. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/backend/backend.h"
#include "engine/base/file.h"
#include "engine/vulkan/device/gpu.h"

#define DRIVERS "/usr/share/vulkan/icd.d/lvp_icd*.json"

static char copy[] = "/tmp/sluice-driver-XXXXXX.json";

static struct backend_device find(const char *which)
{
    struct backend_device d;
    struct err e = {0};
    if (!vulkan_backend.probe->device(which, &d, &e))
        fail_msg("%s", e.text);
    return d;
}

static void test_each_is_found_by_place_id_and_name(void **state)
{
    const struct backend_device first = find("0"), second = find("1");
    assert_int_equal(strlen(first.id), GPU_UUID_LENGTH);
    assert_int_equal(strlen(second.id), GPU_UUID_LENGTH + 2);
    assert_string_equal(find(first.id).id, first.id);
    assert_string_equal(find(second.id).id, second.id);
    assert_string_equal(find("LLVMpipe").name, first.name);
    char some[13] = "GPU-", whole[sizeof first.id + 4]; /* as nvidia-smi writes it */
    memcpy(some + 4, first.id, 8);
    assert_string_equal(find(some + 4).id, first.id);
    assert_string_equal(find(some).id, first.id);
    snprintf(whole, sizeof whole, "GPU-%s", second.id);
    assert_string_equal(find(whole).id, second.id);
    assert_string_equal(find(NULL).name, first.name);
}

static void test_a_name_may_mean_several(void **state)
{
    const struct backend_device first = find("0"), second = find("1");
    const struct backend_probe *p = vulkan_backend.probe;
    assert_true(p->means("llvm", first.id) && p->means("llvm", second.id));
    assert_true(p->means("1", second.id) && p->means(second.id, second.id));
    assert_false(p->means("0", second.id));
    assert_false(p->means(first.id, second.id)); /* whose id begins so */
}

static void test_one_that_is_not_there(void **state)
{
    const char *const wrong[] = {"2", "GeForce", "00000000", "-1", "0x1", "GPU-", "GPU-00000000"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct backend_device d;
        struct err e = {0};
        assert_false(vulkan_backend.probe->device(wrong[i], &d, &e));
        assert_int_equal(e.code, ERR_INPUT);
        assert_string_equal(e.field, "device");
        assert_non_null(strstr(e.text, wrong[i]));
        assert_non_null(strstr(e.text, find("1").id));
    }
}

static void test_the_one_that_was_asked_for_is_opened(void **state)
{
    for (int i = 0; i < 2; i++) {
        const struct backend_device d = find(i ? "1" : "0");
        struct gpu g = {.wanted = d.id};
        struct err e = {0};
        if (!gpu_open(&g, NULL, &e))
            fail_msg("%s", e.text);
        assert_string_equal(g.caps.id, d.id);
        gpu_close(&g);
    }
}

static int list_twice(void **state)
{
    glob_t found;
    char paths[1024];
    struct err e = {0};
    struct buf text = {0};
    if (glob(DRIVERS, 0, NULL, &found) != 0)
        return -1;
    const int fd = mkstemps(copy, 5);
    snprintf(paths, sizeof paths, "%s:%s", found.gl_pathv[0], copy);
    const bool ok = file_read(found.gl_pathv[0], 1 << 16, &text, &e) && fd >= 0 &&
                    write(fd, text.data, text.len) == (ssize_t)text.len;
    close(fd);
    buf_fini(&text);
    globfree(&found);
    if (!ok || setenv("VK_DRIVER_FILES", paths, 1) != 0)
        return -1;
    return setenv("VK_ICD_FILENAMES", paths, 1);
}

static int remove_copy(void **state)
{
    return unlink(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_is_found_by_place_id_and_name),
        cmocka_unit_test(test_a_name_may_mean_several),
        cmocka_unit_test(test_one_that_is_not_there),
        cmocka_unit_test(test_the_one_that_was_asked_for_is_opened),
    };
    glob_t found;
    if (glob(DRIVERS, 0, NULL, &found) != 0) {
        puts("skipped: there is no software driver");
        return 77;
    }
    globfree(&found);
    return cmocka_run_group_tests(tests, list_twice, remove_copy);
}
