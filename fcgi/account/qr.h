/* Turns a text into a QR code, which the page draws as one SVG path. Nothing else includes
 * libqrencode.
 */
#pragma once
#include <stdbool.h>

#include "engine/base/buf.h"

/* Appends the dark modules, one horizontal run after the other ("M4 0h7v1h-7z"), in a square of
 * *size modules; the quiet zone of 4 around it is the drawer's. False: the text is too long, or no
 * memory. */
bool qr_path(const char *text, struct buf *path, int *size);
