/* States without a device, for tests. They replace those of the run module. */
#ifndef KN_FAKE_STATES_H
#define KN_FAKE_STATES_H

#include <koine/session.h>

kn_states *fake_states_make(void);
void fake_states_release(kn_states *states);
/* Call number `calls` of get and set fails. */
void fake_states_fail_after(kn_states *states, int calls);

#endif
