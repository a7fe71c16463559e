/* Memory that may be absent. Some drivers reject null pointers or crash, so the host passes other memory for an absent
 * argument, and bit i of the parameter `present` is set if the i-th pointer of the kernel, from 0, is present. A file
 * that uses KN_PRESENT(place) defines the constant kn_at_place, its i. */
#define KN_PRESENT(place) (present >> kn_at_##place & 1u)
