# files of fcgi
