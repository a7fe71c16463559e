/* Attributes of functions. KN_API: exported by the shared library, which exports nothing else. KN_NODISCARD:
 * the compiler warns if the result is ignored, such as an object that the caller must destroy. KN_DEPRECATED:
 * the compiler warns if the function is used. */
#ifndef KOINE_EXPORT_H
#define KOINE_EXPORT_H

#if defined(_WIN32)
#if defined(KN_BUILDING)
#define KN_API __declspec(dllexport)
#else
#define KN_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define KN_API __attribute__((visibility("default")))
#else
#define KN_API
#endif

#if defined(__GNUC__)
#define KN_NODISCARD __attribute__((warn_unused_result))
#define KN_DEPRECATED(instead) __attribute__((deprecated(instead)))
#elif defined(_MSC_VER)
#define KN_NODISCARD
#define KN_DEPRECATED(instead) __declspec(deprecated(instead))
#else
#define KN_NODISCARD
#define KN_DEPRECATED(instead)
#endif

#endif
