/* Writes a number of bytes with a unit that people read, such as 12.34 GB. */
#include "engine/base/size_text.h"

#include <stdio.h>

char *size_text(double bytes, char text[SIZE_TEXT])
{
    if (bytes >= 1e12)
        snprintf(text, SIZE_TEXT, "%.2f TB", bytes / 1e12);
    else if (bytes >= 1e9)
        snprintf(text, SIZE_TEXT, "%.2f GB", bytes / 1e9);
    else if (bytes >= 1e6)
        snprintf(text, SIZE_TEXT, "%.1f MB", bytes / 1e6);
    else if (bytes >= 1e3)
        snprintf(text, SIZE_TEXT, "%.1f kB", bytes / 1e3);
    else
        snprintf(text, SIZE_TEXT, "%.0f bytes", bytes);
    return text;
}
