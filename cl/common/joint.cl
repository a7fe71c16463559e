/* Launches of several steps that run the same code (src/plan/joint.c). Such a kernel is written as
 *   #ifdef KN_JOINT_kn_name
 *   kernel void kn_name_joint(KN_JOINT_PARAMETERS) {
 *       KN_JOINT_SELECT
 *   #else
 *   kernel void kn_name(...) {
 *   #endif
 * and has at most two dimensions. The host defines
 *   KN_JOINT_kn_name       the kernel of which the program has the joint form
 *   KN_JOINT_PARAMETERS    the parameters that are the same in all steps, and of each step those that differ
 *   KN_JOINT_SELECT        declares the latter by their names, with the values of step get_global_id(2)
 * Numbers of work-items are the largest of the steps: a kernel ignores those beyond its counts. */
