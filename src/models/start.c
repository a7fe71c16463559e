/* How parameters begin: the words of init=. */
#include "models/models_private.h"

const kn_start_row kn_start_table[] = {
    {"zero", KN_INITIALIZE_FILL, false, 0, "0 everywhere"},
    {"one", KN_INITIALIZE_FILL, false, 1, "1 everywhere"},
    {"fill", KN_INITIALIZE_FILL, true, 0, "the given number everywhere"},
    {"uniform", KN_INITIALIZE_UNIFORM, true, 1, "evenly between the given number and its negative"},
    {"normal", KN_INITIALIZE_NORMAL, true, 1, "normally around 0, with the given standard deviation"},
};
const int kn_start_table_count = (int)KN_COUNT_OF(kn_start_table);
