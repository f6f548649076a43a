# files of sql
