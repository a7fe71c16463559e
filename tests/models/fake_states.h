/* States without a device, for tests. They take the place of the plan room's. */
#ifndef KN_FAKE_STATES_H
#define KN_FAKE_STATES_H

#include <koine/session.h>

kn_states *fake_states_make(void);
void fake_states_release(kn_states *states);
/* The call after so many of get and set fails. */
void fake_states_fail_after(kn_states *states, int calls);

#endif
