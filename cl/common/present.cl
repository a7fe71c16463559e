/* Memory that may be absent. Some drivers refuse null pointers or crash, so the host passes other memory for an absent
 * argument, and bit i of the parameter `present` says whether the i-th pointer of the kernel, from 0, is there.
 * KN_PRESENT(name, i), at the kernel's start, makes an absent one null. */
#define KN_PRESENT(name, i)                                                                                  \
    if (!(present >> (i) & 1u)) name = 0;
