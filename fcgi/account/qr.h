/* A text as a QR code, drawn by the page as one SVG path. The only door to libqrencode. */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"

/* Appends the dark modules, one horizontal run after the other ("M4 0h7v1h-7z"), in a square of *size modules; the quiet
 * zone of 4 around it is the drawer's. False: the text is too long, or no memory. */
bool qr_path(const char *text, struct buf *path, int *size);
