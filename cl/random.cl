/* Philox4x32-10, the same numbers as the library's host side: element `index` of the stream of `key`, in
 * the step `step` of a training. A stream does not depend on layout, on the work-group or on the device. */

#define KN_PHILOX_STEP 0x9E3779B97F4A7C15ul

/* In [0, 1): the top 24 bits of the word times 2^-24. */
static float kn_uniform(ulong key, uint step, ulong index) {
    key += step * KN_PHILOX_STEP;
    uint k0 = (uint)key, k1 = (uint)(key >> 32);
    const ulong block = index >> 2;
    uint c0 = (uint)block, c1 = (uint)(block >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        const uint high0 = mul_hi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const uint high1 = mul_hi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const uint lane = (uint)index & 3u;
    const uint word = lane == 0 ? c0 : lane == 1 ? c1 : lane == 2 ? c2 : c3;
    return (float)(word >> 8) * 0x1p-24f;
}
