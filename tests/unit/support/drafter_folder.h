/* Folders in /tmp with drafters of random values that go on from a model's hidden states: a golden
 * model of the tree with a next-token layer beside it in a file of its own, and a DFlash drafter,
 * both under the names of published files. */
#pragma once

struct drafter_folder {
    char path[64];
};

/* model: "tests/data/golden/glm4moe/hf" or "tests/data/golden/qwen35moe/mlx-mixed3". */
void drafter_folder_make_layer(struct drafter_folder *f, const char *model);

struct dflash_shape {
    int d, n_vocab, n_layer; /* of the model; its first and last layer are tapped */
    int block;
    const char *architecture; /* NULL: DFlashDraftModel */
};
void drafter_folder_make_dflash(struct drafter_folder *f, const struct dflash_shape *s);
void drafter_folder_remove(struct drafter_folder *f);
