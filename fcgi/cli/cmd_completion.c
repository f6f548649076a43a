/* sluice completion: what a shell needs to complete commands, options and their values, written
 * from the same tables as --help. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/option.h"
#include "fcgi/cli/cli_options.h"
#include "fcgi/cli/command.h"

extern const struct command cmd_completion;

/* "codex|claude" at the beginning of a usage: words that may follow the command's name. */
static size_t first_words(const struct command *c)
{
    size_t n = strspn(c->usage, "abcdefghijklmnopqrstuvwxyz|");
    return memchr(c->usage, '|', n) && (c->usage[n] == ' ' || !c->usage[n]) ? n : 0;
}

/* Lists as shells want them, with blanks between. */
static void print_list(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        putchar(text[i] == '|' ? ' ' : text[i]);
}

static bool takes_value(const struct option *o)
{
    return o->type != OPTION_BOOL;
}

/* In single quotes of a shell. */
static void print_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    putchar('\'');
}

static void bash(void)
{
    puts("# bash completion of sluice, written by `sluice completion bash`\n"
         "_sluice() {\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= values=\n"
         "    if [ \"$COMP_CWORD\" = 1 ]; then");
    fputs("        words='help version", stdout);
    for (const struct command *const *c = command_table(); *c; c++)
        printf(" %s", (*c)->name);
    puts("'\n    else\n        case ${COMP_WORDS[1]} in");
    for (const struct command *const *c = command_table(); *c; c++) {
        printf("        %s) words='", (*c)->name);
        if (first_words(*c)) {
            print_list((*c)->usage, first_words(*c));
            putchar(' ');
        }
        for (size_t i = 0; i < (*c)->n_options; i++)
            printf("--%s ", (*c)->options[i].name);
        puts("--help'\n            case $prev in");
        for (size_t i = 0; i < (*c)->n_options; i++) {
            const struct option *o = &(*c)->options[i];
            if (!takes_value(o))
                continue;
            printf("            --%s) values='", o->name);
            if (o->choices)
                print_list(o->choices, strlen(o->choices));
            puts("'; words= ;;");
        }
        puts("            esac ;;");
    }
    puts("        esac\n    fi\n"
         "    COMPREPLY=($(compgen -W \"$words $values\" -- \"$cur\"))\n"
         "}\n"
         "complete -o default -F _sluice sluice");
}

static void fish(void)
{
    puts("# fish completion of sluice, written by `sluice completion fish`\n"
         "set -l none 'test (count (commandline -opc)) -eq 1'");
    for (const struct command *const *c = command_table(); *c; c++) {
        printf("complete -c sluice -f -n $none -a %s -d ", (*c)->name);
        print_quoted((*c)->help);
        putchar('\n');
    }
    for (const struct command *const *c = command_table(); *c; c++) {
        char when[64];
        snprintf(when, sizeof when, "'__fish_seen_subcommand_from %s'", (*c)->name);
        if (first_words(*c)) {
            printf("complete -c sluice -f -n %s -a '", when);
            print_list((*c)->usage, first_words(*c));
            puts("'");
        }
        for (size_t i = 0; i < (*c)->n_options; i++) {
            const struct option *o = &(*c)->options[i];
            printf("complete -c sluice -n %s -l %s%s", when, o->name, takes_value(o) ? " -r" : "");
            if (o->choices) {
                fputs(" -f -a '", stdout);
                print_list(o->choices, strlen(o->choices));
                putchar('\'');
            }
            fputs(" -d ", stdout);
            print_quoted(o->help);
            putchar('\n');
        }
    }
}

/* A text inside a specification of zsh's _arguments: brackets and colons mean something there. */
static void print_zsh(const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text))
            putchar('\\');
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    }
}

static void zsh_options(const struct command *c)
{
    printf("    %s) _arguments", c->name);
    for (size_t i = 0; i < c->n_options; i++) {
        const struct option *o = &c->options[i];
        printf(" \\\n        '--%s[", o->name);
        print_zsh(o->help);
        putchar(']');
        if (takes_value(o)) {
            printf(":%s:", o->value ? o->value : o->name);
            if (o->choices) {
                putchar('(');
                print_list(o->choices, strlen(o->choices));
                putchar(')');
            } else {
                fputs("_files", stdout);
            }
        }
        putchar('\'');
    }
    if (first_words(c)) {
        fputs(" \\\n        '1:what:(", stdout);
        print_list(c->usage, first_words(c));
        fputs(")'", stdout);
    }
    puts(" \\\n        '*:file:_files' ;;");
}

static void zsh(void)
{
    puts("#compdef sluice\n# zsh completion of sluice, written by `sluice completion zsh`\n"
         "_sluice() {\n    local -a commands\n    if (( CURRENT == 2 )); then\n        commands=(");
    for (const struct command *const *c = command_table(); *c; c++) {
        printf("            '%s:", (*c)->name);
        print_zsh((*c)->help);
        puts("'");
    }
    puts("        )\n        _describe command commands\n        return\n    fi\n"
         "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
         "    case $command in");
    for (const struct command *const *c = command_table(); *c; c++)
        zsh_options(*c);
    puts("    esac\n}\n_sluice \"$@\"");
}

static int run(int argc, char **argv)
{
    char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int status = rest ? cli_options(&cmd_completion, argc, argv, NULL, rest) : 1;
    const char *shell = status < 0 && rest[0] && !rest[1] ? rest[0] : "";
    if (status < 0) {
        status = 0;
        if (!strcmp(shell, "bash"))
            bash();
        else if (!strcmp(shell, "zsh"))
            zsh();
        else if (!strcmp(shell, "fish"))
            fish();
        else
            status = cli_misused(&cmd_completion, "name a shell");
    }
    free(rest);
    return status;
}

const struct command cmd_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .help = "print what a shell needs to complete this command",
    .run = run,
};
