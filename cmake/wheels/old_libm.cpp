// glibc 2.27 and 2.29 gave some functions new versions that do not set errno. A linker takes the newest version that it
// sees, and the module would need that glibc for it. These calls take the first version instead, which every glibc has.

#if defined(__x86_64__)
#define MINNOW_FIRST_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define MINNOW_FIRST_GLIBC "GLIBC_2.17"
#endif

// `name` as the linker knows it is a function here, hidden from other modules, that calls the oldest one of libm.
#define MINNOW_OLD(type, name, parameters, arguments)                                       \
  extern type old_##name parameters;                                                        \
  __asm__(".symver old_" #name ", " #name "@" MINNOW_FIRST_GLIBC);                          \
  extern type first_##name parameters __asm__(#name) __attribute__((visibility("hidden"))); \
  type first_##name parameters { return old_##name arguments; }

extern "C" {
MINNOW_OLD(double, exp, (double x), (x))
MINNOW_OLD(double, log, (double x), (x))
MINNOW_OLD(double, pow, (double x, double y), (x, y))
MINNOW_OLD(float, powf, (float x, float y), (x, y))
}
