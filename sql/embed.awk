# Turns SQL files into C, so that no SQL is written in C. Run by sql/local.mk:
#   awk -v part=header -f embed.awk queries/*.sql            > queries.gen.h
#   awk -v part=source -f embed.awk [all files, see below]   > queries.gen.c
# queries/*.sql give `enum query`, query_text[] and query_name[] from their "-- name:" lines. What several queries share, such as a list
# of columns, is a part: "-- part: some_columns" begins it, an empty line ends it, and @some_columns stands for its text
# in the queries of every file. schema.sql and connection.sql
# give one string each; migrations/NNNN_what.sql give rows of migration_table[]. Plain POSIX awk.

function fail(text)
{
    print FILENAME ":" FNR ": " text > "/dev/stderr"
    failed = 1
    exit 1
}

# One source line as a C string literal of its own.
function literal(line)
{
    gsub(/\\/, "&&", line)
    gsub(/"/, "\\\"", line)
    return "    \"" line "\\n\"\n"
}

FNR == 1 {
    in_part = ""
    kind = FILENAME ~ /queries\// ? "query" : FILENAME ~ /migrations\// ? "migration" : "text"
    if (kind != "query") {
        base = FILENAME
        sub(/.*\//, "", base)
        sub(/\.sql$/, "", base)
        name = base
        order[++n] = name
        kinds[name] = kind
        file[name] = FILENAME
    } else {
        name = ""
    }
}

kind == "query" && /^-- name: [a-z_0-9]+$/ {
    name = $3
    if (name in kinds)
        fail("query " name " is there twice")
    order[++n] = name
    kinds[name] = kind
    next
}

kind == "query" && /^-- part: [a-z_0-9]+$/ {
    if ($3 in part_text)
        fail("part " $3 " is there twice")
    name = ""
    in_part = $3
    part_text[in_part] = ""
    next
}

in_part != "" && /^[ \t]*$/ { in_part = ""; next }

in_part != "" {
    part_text[in_part] = part_text[in_part] (part_text[in_part] == "" ? "" : "\n") $0
    next
}

kind == "query" && /^-- (name|part)/ { fail("want '-- name: some_name' or '-- part: some_name'") }

# Comment lines document the files; the database needn't store or parse them.
/^--/ || /^[ \t]*$/ { next }

{
    if (name == "")
        fail("SQL before the first '-- name:'")
    body[name] = body[name] $0 "\n"
}

# Each @part of a query replaced by its text.
function whole(text,    at)
{
    while (match(text, /@[a-z_0-9]+/)) {
        at = substr(text, RSTART + 1, RLENGTH - 1)
        if (!(at in part_text))
            fail("there is no part " at)
        text = substr(text, 1, RSTART - 1) part_text[at] substr(text, RSTART + RLENGTH)
    }
    return text
}

function literals(text,    i, n, lines, out)
{
    n = split(text, lines, "\n")
    for (i = 1; i < n; i++)
        out = out literal(lines[i])
    return out
}

END {
    if (failed)
        exit 1
    print "/* Made by sql/embed.awk from sql/. */"
    if (part == "header") {
        print "#pragma once\n\nenum query {"
        for (i = 1; i <= n; i++)
            print "    QUERY_" toupper(order[i]) ","
        print "    QUERY__N\n};"
        exit 0
    }
    print "#include \"sql/core/embedded.h\"\n"
    print "const char *const query_text[QUERY__N] = {"
    for (i = 1; i <= n; i++)
        if (kinds[order[i]] == "query")
            print "    [QUERY_" toupper(order[i]) "] =\n" literals(whole(body[order[i]])) "    ,"
    print "};\n"
    print "const char *const query_name[QUERY__N] = {"
    for (i = 1; i <= n; i++)
        if (kinds[order[i]] == "query")
            print "    [QUERY_" toupper(order[i]) "] = \"" order[i] "\","
    print "};\n"
    print "const struct migration migration_table[] = {"
    for (i = 1; i <= n; i++)
        if (kinds[order[i]] == "migration")
            print "    {" (substr(order[i], 1, 4) + 0) ", \"" order[i] "\",\n" literals(body[order[i]]) "    },"
    print "    {0, 0, 0}};\n"
    for (i = 1; i <= n; i++)
        if (kinds[order[i]] == "text")
            print "const char " order[i] "_sql[] =\n" literals(body[order[i]]) "    ;"
}
