/* expert_models.h: the models in the tree that have routed experts, in every layout that files
 * use. */
#include "tests/unit/support/expert_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const expert_models[] = {
    "engine/demo-model",
    "tests/data/golden/bailingv2/mlx-mxfp4",
    "tests/data/golden/bailingv2/mlx-q5",
    "tests/data/golden/bailingv2/gguf",
    "tests/data/golden/gptoss/hf-mxfp4",
    "tests/data/golden/gptoss/gguf",
    "tests/data/golden/qwen35moe/mlx-mixed3",
    "tests/data/golden/qwen35moe/gguf",
    "tests/data/golden/qwen3moe/mlx-q4",
    "tests/data/golden/qwen3moe-k/gguf",
    "tests/data/golden/glm4moe/hf",
    "tests/data/golden/glm4moe/gguf",
    "tests/data/golden/qwen2moe/hf",
    "tests/data/golden/qwen2moe/gguf",
    NULL,
};

const char *expert_model_path(const char *name)
{
    static char path[4096];
    const char *root = getenv("srcdir");
    snprintf(path, sizeof path, "%s/%s", root ? root : ".", name);
    return path;
}

bool expert_models_first_form(size_t i)
{
    const char *end = strrchr(expert_models[i], '/');
    const size_t n = (size_t)(end - expert_models[i]) + 1;
    return i == 0 || strncmp(expert_models[i], expert_models[i - 1], n) != 0;
}
