/* qr.h: the code is drawn row by row, one path command for each run of dark modules. */
#include "fcgi/account/qr.h"

#include <qrencode.h>

bool qr_path(const char *text, struct buf *path, int *size)
{
    QRcode *code = QRcode_encodeString8bit(text, 0, QR_ECLEVEL_M);
    if (!code)
        return false;
    *size = code->width;
    for (int y = 0; y < code->width; y++) {
        const unsigned char *row = code->data + y * code->width;
        for (int x = 0, run; x < code->width; x += run ? run : 1) {
            for (run = 0; x + run < code->width && row[x + run] & 1; run++) {
            }
            if (run)
                buf_printf(path, "M%d %dh%dv1h-%dz", x, y, run, run);
        }
    }
    QRcode_free(code);
    return !path->failed;
}
