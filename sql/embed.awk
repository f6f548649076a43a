# Turns SQL files into C, so that no SQL is written in C. Run by sql/local.mk:
#   awk -v part=header -f embed.awk queries/*.sql            > queries.gen.h
#   awk -v part=source -f embed.awk [all files, see below]   > queries.gen.c
# queries/*.sql give `enum query` and query_text[] from their "-- name:" lines; schema.sql and connection.sql
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

kind == "query" && /^-- name/ { fail("want '-- name: some_name'") }

# Comment lines document the files; the database needn't store or parse them.
/^--/ || /^[ \t]*$/ { next }

{
    if (name == "")
        fail("SQL before the first '-- name:'")
    body[name] = body[name] literal($0)
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
            print "    [QUERY_" toupper(order[i]) "] =\n" body[order[i]] "    ,"
    print "};\n"
    print "const struct migration migration_table[] = {"
    for (i = 1; i <= n; i++)
        if (kinds[order[i]] == "migration")
            print "    {" (substr(order[i], 1, 4) + 0) ", \"" order[i] "\",\n" body[order[i]] "    },"
    print "    {0, 0, 0}};\n"
    for (i = 1; i <= n; i++)
        if (kinds[order[i]] == "text")
            print "const char " order[i] "_sql[] =\n" body[order[i]] "    ;"
}
