/* Public to other modules: vocabularies, text to tokens and back. */
#ifndef KN_TEXT_H
#define KN_TEXT_H

#include <koine/text.h>

#include "base/base.h"
#include "formats/formats.h"

#endif
