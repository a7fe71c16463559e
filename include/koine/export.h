/* The shared library exports the functions marked KN_API and nothing else. */
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

#endif
