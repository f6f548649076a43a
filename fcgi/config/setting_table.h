/* The table behind server_settings.h, for the files of this folder. */
#pragma once
#include <stdbool.h>

#include "fcgi/config/server_settings.h"

extern const struct setting_row setting_rows[SETTING__N];
/* Changing it asks a session for a confirmation (auth/confirmation.h). */
extern const bool setting_guarded[SETTING__N];
