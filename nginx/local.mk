# files of nginx
