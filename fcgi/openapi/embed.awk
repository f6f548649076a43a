# Turns the schemas' JSON files into rows of openapi_schemas[]. Run by fcgi/local.mk. Plain POSIX awk.
BEGIN { print "/* Made by fcgi/openapi/embed.awk. */\n#include \"fcgi/openapi/openapi.h\"\n\nconst struct openapi_schemas openapi_schemas[] = {" }
FNR == 1 {
    if (n++)
        print "    },"
    base = FILENAME
    sub(/.*\//, "", base)
    sub(/\.json$/, "", base)
    print "    {\"" base "\","
}
{
    gsub(/\\/, "&&")
    gsub(/"/, "\\\"")
    print "     \"" $0 "\\n\""
}
END { print "    },\n    {0}};" }
