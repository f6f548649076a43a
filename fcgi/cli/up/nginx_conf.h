/* nginx's configuration for `sluice up`, made from the templates in the share folder. */
#pragma once
#include <stdbool.h>

#include "engine/base/err.h"

struct nginx_conf {
    const char *templates; /* folder with up.conf.in, server.conf.in, headers.conf, hosts.conf,
                              fastcgi.conf, mime.types */
    const char *run; /* folder that is written to: nginx.conf, server.conf, temporary files, pid */
    const char *listen; /* "127.0.0.1:8080" */
    const char *web;    /* folder of the page */
    const char *stream_socket, *short_socket, *status_socket;
    const char *names; /* DNS names that are answered besides those of hosts.conf, separated by
                          blanks; "*.example.org" is all below */
};

/* Writes run/nginx.conf and run/server.conf. */
bool nginx_conf_write(const struct nginx_conf *c, struct err *e);
/* Full path of the nginx program, or NULL when there is none on this machine. Static. */
const char *nginx_program(void);
