# files of web
