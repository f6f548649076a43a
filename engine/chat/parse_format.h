/* The ways in which models write reasoning and tool calls: one row per format, one small machine
 * per way. Machines are fed byte by byte, so that how the text was cut can't matter. Private to
 * chat_parser.c, parse_*.c and chat_template_probe.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/buf.h"
#include "engine/chat/chat_parser.h"
#include "engine/chat/parse_json.h"

/* The verdict of a machine on one byte of a call. */
enum parse_step {
    PARSE_MORE,  /* taken */
    PARSE_DONE,  /* taken; the call, or the section of calls, is over */
    PARSE_OVER,  /* over before this byte, which is text again */
    PARSE_FALSE, /* no call: everything since the opening is text, this byte comes again */
};

struct parse_format {
    const char *name;
    const char *const *openers; /* tags that begin a call or a section of calls; NULL-terminated */
    const struct parse_machine *machine;
    const char *think_open, *think_close; /* NULL: this format has no reasoning */
    bool special_text; /* its tags are control tokens, see chat_format_special_text */
    const char *close; /* tag behind which text begins again after a malformed call; NULL: none */
};

struct parse_machine {
    /* A call begins: `opener` is the place in the format's list. */
    void (*begin)(struct chat_parser *p, int opener);
    enum parse_step (*byte)(struct chat_parser *p, char c);
    /* The text ended: true when what is there is whole. */
    bool (*end)(struct chat_parser *p);
};

extern const struct parse_machine
    parse_json_machine; /* hermes: {"name", "arguments"} between two tags */
extern const struct parse_machine parse_xml_machine;     /* Qwen3-Coder */
extern const struct parse_machine parse_pairs_machine;   /* GLM, Ling 3: arg_key, arg_value */
extern const struct parse_machine parse_bailing_machine; /* Ling: either of the two above */
extern const struct parse_machine parse_invoke_machine;  /* MiniMax */
extern const struct parse_machine parse_section_machine; /* DeepSeek, Kimi */
extern const struct parse_machine parse_mistral_machine;
extern const struct parse_machine parse_llama_machine;

const struct parse_format *parse_format_find(const char *name);
/* The format that a template teaches, by what it writes itself; "plain" when it teaches none. */
const char *parse_format_detect(const char *template, size_t len);

/* A literal being matched byte by byte. */
struct parse_tag {
    const char *text;
    size_t at;
};

struct chat_parser {
    const struct parse_format *format;
    const cJSON *tools;
    chat_delta_fn on_delta;
    void *context;
    bool stream_calls;
    bool failed; /* memory ran out */

    int mode;         /* enum parse_mode in chat_parser.c */
    struct buf held;  /* bytes that may be the beginning of a tag */
    struct buf space; /* white space that counts only if text follows */
    struct buf raw;   /* the call so far, from its opening, to give back if it is none */
    struct buf text;  /* text that is to be sent at the end of the push */
    int text_type;    /* CHAT_REASONING or CHAT_CONTENT */
    bool any[2];      /* reasoning, content: something was given out */
    bool cut;         /* markup was cut out here, and no text came since */
    bool join;        /* the markup was a call: a newline joins the texts around it */
    int n_calls;

    /* of the call's machine */
    const struct parse_machine *machine;
    int state;
    bool good;    /* this section gave a call already */
    size_t start; /* where in `raw` the JSON begins */
    struct parse_tag tag[3];
    struct json_machine json;
    struct buf name, key, value;
    size_t close_at,
        next_at; /* parse_value_byte: in `value`; 0: none (a value's tag never stands at 0) */
    const char *value_close;
    bool value_trims;
    struct buf
        arguments; /* an object being built out of pairs, or those of the call that is being sent */

    /* parse_stream.c */
    bool streaming;            /* call n_calls is being sent while it is written */
    bool streamed;             /* this call was sent that way; it may have ended since */
    bool malformed;            /* the call that is being sent is malformed */
    bool ended;                /* harmony: the arguments' object is whole */
    bool in_string, in_escape; /* inside a string of the arguments; behind its backslash */
    bool pair_open, pair_text; /* a pair's key is out; its value is a string */
    size_t pair_sent;          /* bytes of that string's text that are in `arguments` */
    size_t sent;               /* bytes of `arguments` that were given out */
};

/* Gives out a call. `arguments` must be whole JSON. What is in p->raw is forgotten, since it is
 * understood. */
void parse_give_call(struct chat_parser *p, const char *name, size_t name_len,
                     const char *arguments, size_t len);
/* The same for {"name":..., "arguments":...} as p->json walked it in `text`; false when it is no
 * call. */
bool parse_give_json_call(struct chat_parser *p, const char *text, const struct json_machine *m);
/* Is it one? The decoded name into `name`, the arguments into `arguments`, both cleared first. */
bool parse_read_json_call(const char *text, const struct json_machine *m, struct buf *name,
                          struct buf *arguments);
bool parse_is_tool(const struct chat_parser *p, const char *name, size_t len);
/* JSON arguments as the model wrote them: raw control characters in strings are escaped, then it is
 * checked. An empty text counts as {}. False when it is no JSON object. */
bool parse_clean_object(const char *text, size_t len, struct buf *out);

/* Matching one of up to three literals, with white space before it: MORE, FALSE, or DONE and which.
 */
void parse_tags_begin(struct chat_parser *p, const char *a, const char *b, const char *c);
enum parse_step parse_tags_byte(struct chat_parser *p, char c, int *which);
bool parse_is_space(char c);
bool parse_is_name(char c); /* letters, digits, _ - . */
#define PARSE_MAX_NAME 256

/* Streamed calls: they are sent while they are written, see parse_stream.c. `begin` takes the name
 * in p->name and what there is of the arguments in p->arguments; false: no tool of that name, so
 * the call waits for its end. */
bool parse_stream_begin(struct chat_parser *p);
void parse_stream_byte(struct chat_parser *p, char c); /* of arguments in JSON */
void parse_stream_end(struct chat_parser *p);
/* A byte of {"name":..., "arguments":...} that p->json has walked: begins and ends the call by
 * itself. */
void parse_stream_call_byte(struct chat_parser *p, char c);
void parse_stream_flush(struct chat_parser *p);
/* The streamed call is malformed: what is in `raw` and all that follows joins its arguments. */
void parse_stream_mark_malformed(struct chat_parser *p);
bool parse_stream_malformed_byte(struct chat_parser *p,
                                 char c);        /* true: the closing tag ended it */
void parse_stream_finish(struct chat_parser *p); /* the text ended inside it */
bool parse_read_json_name(const char *text, const struct json_machine *m, struct buf *name);

/* Adds "key": value, out of p->key and the whole value, to p->arguments; the tool's schema says
 * whether the text is a string or JSON. */
bool parse_add_pair(struct chat_parser *p);
void parse_begin_pairs(struct chat_parser *p);
/* The same for a streamed call in steps: the key when its value begins; then what is sure of a
 * string, at each flush; `all`: the text has ended inside it. */
void parse_pair_begin(struct chat_parser *p);
void parse_pair_flush(struct chat_parser *p, bool all);

/* A value inside tags: collects into p->value until `close` stands before one of `next` (white
 * space between aside), so that a value may hold its own closing tag. DONE: which of them it was.
 */
void parse_value_begin(struct chat_parser *p, const char *close, bool trims);
enum parse_step parse_value_byte(struct chat_parser *p, char c, const char *const *next,
                                 int *which);
/* The value as it stands: without the newline at each end that belongs to the markup, where
 * `trims`. */
const char *parse_value_text(const struct chat_parser *p, size_t *len);

/* Harmony has its own walk, without the layer of reasoning tags. */
void parse_harmony_begin(struct chat_parser *p);
void parse_harmony_byte(struct chat_parser *p, char c);
void parse_harmony_end(struct chat_parser *p);

/* parse_relayed.c: text is told apart already. flush: what there is of a call's arguments. */
void parse_relayed_byte(struct chat_parser *p, char c);
void parse_relayed_flush(struct chat_parser *p);

/* Text out, kept until the end of the push. */
void parse_text(struct chat_parser *p, enum chat_delta_type type, const char *data, size_t len);
void parse_flush(struct chat_parser *p);
