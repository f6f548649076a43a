/* Bytes in words, the same everywhere: powers of 1000, as disks, networks and the page count. */
#pragma once

#define SIZE_TEXT 24
/* "12.34 GB", "640.0 MB", "1.5 kB", "17 bytes"; returns `text`. */
char *size_text(double bytes, char text[SIZE_TEXT]);
