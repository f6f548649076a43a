/* How a vocabulary cuts text into tokens. Shared by the compiled image and what it is made from. */
#pragma once

enum vocab_kind {
    VOCAB_BPE,       /* byte-level byte-pair encoding */
    VOCAB_WORDPIECE, /* BERT */
    VOCAB_UNIGRAM,   /* SentencePiece, as XLM-RoBERTa has it */
    VOCAB_KIND__N
};

/* What happens to text before pieces are looked for. */
enum vocab_words {
    VOCAB_WORDS_CLEAN = 1,   /* control characters are dropped */
    VOCAB_WORDS_CHINESE = 2, /* each Chinese character is a word */
    VOCAB_WORDS_LOWER = 4,
    VOCAB_WORDS_STRIP = 8, /* accents are dropped */
    VOCAB_WORDS_END = 16,  /* unigram: white space at a text's end is a word, of a lone low line */
};
